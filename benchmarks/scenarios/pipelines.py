"""What a pipeline of three steps costs: beside one job, and beside an ensemble that Triton runs by itself.

Latencies are in ms from the submit to the webhook, CPU in ms per job or run, of all services and servers together.
`memory` is by how many MB Triton and the services grow at most while large runs are under way.
"""

import argparse
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from benchmarks.harness.bench import Bench, BenchmarkFailed, Scenario, find_pids, rotate
from benchmarks.harness.private_stack import link_models
from benchmarks.harness.processes import read_memory, reset_peaks
from benchmarks.harness.report import Figures, pick, with_prefix
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT

RATE = 15  # jobs or runs per second: a run has three jobs
STEPS = 3
LARGE_RUNS, LARGE_VALUES = 64, 50_000  # runs with a tensor of 200 KB each
IN_FLIGHT = 16
SERVERS = ("postgres", "rabbitmq", "triton")
PIPELINE, ENSEMBLE = "three_steps", "three_models"
VARIANTS = {"job": "echo", "pipeline": PIPELINE, "ensemble": ENSEMBLE}
SHAPE = {"datatype": "FP32", "shape": [-1, -1]}
NAMES = [f"step{number}" for number in range(STEPS)]
DEFINITION = {
    "inputs": {"x": SHAPE},
    "steps": {
        name: {"model": "echo", "inputs": {"x": f"${before}"}}
        for name, before in zip(NAMES, ["inputs.x", *(f"{name}.y" for name in NAMES)], strict=False)
    },
    "outputs": {"y": f"${NAMES[-1]}.y"},
}


def write_models(models: Path, options: argparse.Namespace) -> None:
    """Link the demo's models, and write an ensemble of STEPS times `echo`."""
    link_models(models, ROOT / "deploy" / "models")
    tensors = ["x", *(f"between{number}" for number in range(1, STEPS)), "y"]
    steps = ", ".join(
        f'{{ model_name: "echo" model_version: -1 input_map {{ key: "x" value: "{given}" }} '
        f'output_map {{ key: "y" value: "{made}" }} }}'
        for given, made in itertools.pairwise(tensors)
    )
    (models / ENSEMBLE / "1").mkdir(parents=True)
    (models / ENSEMBLE / "config.pbtxt").write_text(
        f'name: "{ENSEMBLE}" platform: "ensemble" max_batch_size: 64\n'
        'input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
        f"ensemble_scheduling {{ step [ {steps} ] }}\n"
    )


def measure(bench: Bench) -> Iterator[Figures]:
    store(bench)
    for model in VARIANTS.values():
        bench.run_open(1, model=model, rate=RATE)
    for order in rotate(tuple(VARIANTS)):
        figures: Figures = {}
        for variant in order:
            figures |= with_prefix(f"{variant}.memory", measure_memory(bench, VARIANTS[variant]))
        for variant in order:
            found = bench.run_open(bench.seconds, model=VARIANTS[variant], rate=RATE)
            found["all"] = found["own"] + sum(found[f"cpu.{server}"] for server in SERVERS)
            figures |= with_prefix(variant, pick(found, "webhook", "own", "all", "cpu"))
        for variant in ("pipeline", "ensemble"):
            for name in ("all", "webhook.p50"):
                figures[f"{variant}.{name}.ratio"] = figures[f"{variant}.{name}"] / figures[f"job.{name}"]
        yield figures


def measure_memory(bench: Bench, model: str) -> Figures:
    """Run some large jobs at a time. Return how much Triton and the services grew at their largest, in MB."""
    pids = find_pids([bench.stack.triton, *bench.services])
    before = {name: read_memory(pid) for name, pid in pids.items()}
    for pid in pids.values():
        reset_peaks(pid)
    headers = {"authorization": f"Bearer {DEVELOPMENT_KEY}", "prefer": "wait=30"}
    body = {"model": model, "inputs": {"x": [[0.5] * LARGE_VALUES]}}
    url = f"{bench.stack.gateways[0].url}/v1/jobs"
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as client, ThreadPoolExecutor(IN_FLIGHT) as threads:
        for answer in threads.map(lambda _: client.post(url, json=body), range(LARGE_RUNS)):
            if answer.json().get("status") != "succeeded":
                raise BenchmarkFailed(f"a large run of {model} did not succeed: {answer.text[:500]}")
    grown = {name: read_memory(pid, "VmHWM") - before[name] for name, pid in pids.items()}
    triton = grown.pop(bench.stack.triton.name)
    return {"triton": triton, "services": sum(grown.values())}


def store(bench: Bench) -> None:
    url = f"{bench.stack.gateways[0].url}/v1/pipelines/{PIPELINE}"
    headers = {"authorization": f"Bearer {DEVELOPMENT_KEY}"}
    answer = httpx.put(url, json=DEFINITION, headers=headers, trust_env=False, timeout=30)
    if answer.is_error:
        raise BenchmarkFailed(f"the pipeline was not stored: {answer.text}")


SCENARIO = Scenario(measure, {"rate": RATE, "steps": STEPS}, write_models=write_models, check_jobs=True)
