"""The pipelines of the storm, with the inputs of their runs and what must come of them. Pure."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

WORDS = ("conch", "Shell", "trumpet", "sea", "wave", "TRITON", "Ångström", "海")
RETRY = {"max_attempts": 8, "initial_delay": 0.2, "max_delay": 2.0}
TEXT, NUMBER = {"datatype": "BYTES", "shape": [1]}, {"datatype": "INT32", "shape": [1]}
NUMBERS = {"datatype": "INT32", "shape": [-1, 1]}
ELEMENTS = (2, 24)  # of a step with for_each
DEFINITIONS: dict[str, Any] = {
    "chain": {
        "inputs": {"x": {"datatype": "FP32", "shape": [-1, -1]}, "ms": NUMBERS},
        "steps": {
            "first": {"model": "echo", "inputs": {"x": "$inputs.x"}, "retry": RETRY},
            "second": {"model": "echo", "inputs": {"x": "$first.y"}, "retry": RETRY},
            "third": {"model": "echo", "inputs": {"x": "$second.y"}, "retry": RETRY, "priority": "high"},
            "beside": {"model": "work", "inputs": {"ms": "$inputs.ms"}, "retry": RETRY},
        },
        "outputs": {"y": "$third.y", "early": "$first.y", "slept": "$beside.slept"},
    },
    "each": {
        "inputs": {"ms": NUMBERS, "text": {"datatype": "BYTES", "shape": [-1]}},
        "steps": {
            "rows": {"model": "work", "inputs": {"ms": "$inputs.ms"}, "for_each": "ms", "retry": RETRY},
            "lines": {"model": "words", "inputs": {"text": "$inputs.text"}, "for_each": "text", "retry": RETRY},
            "page": {"model": "words", "inputs": {"text": "$lines.words"}, "retry": RETRY},
        },
        "outputs": {"slept": "$rows.slept", "counts": "$lines.count", "words": "$page.words"},
    },
    "fallback": {
        "inputs": {"mode": TEXT, "value": NUMBER, "key": TEXT},
        "steps": {
            "fails": {
                "model": "faulty",
                "inputs": {"mode": "$inputs.mode", "value": "$inputs.value", "key": "$inputs.key"},
                "retry": {"max_attempts": 2, "initial_delay": 0.1},
                "fallback_model": "faulty",
            },
            "after": {"model": "words", "inputs": {"text": "$fails.result"}, "retry": RETRY},
        },
        "outputs": {"words": "$after.words"},
    },
    "broken": {
        "inputs": {"mode": TEXT, "value": NUMBER, "key": TEXT, "ms": NUMBERS},
        "steps": {
            "before": {"model": "words", "inputs": {"text": "$inputs.key"}, "retry": RETRY},
            "fails": {
                "model": "faulty",
                "inputs": {"mode": "$inputs.mode", "value": "$inputs.value", "key": "$before.words"},
                "retry": {"max_attempts": 1},
            },
            "beside": {"model": "work", "inputs": {"ms": "$inputs.ms"}, "for_each": "ms", "retry": RETRY},
            "after": {"model": "words", "inputs": {"text": "$fails.result"}, "retry": RETRY},
        },
        "outputs": {"words": "$after.words", "slept": "$beside.slept"},
    },
}


@dataclass(frozen=True)
class StepRequest:
    """A step of a run: how many jobs it must have, and how its model fails. `kind` is as in a job request."""

    elements: int = 1
    kind: str = "ok"
    failures: int = 0


class RunInputs(NamedTuple):
    """The inputs of a run, and the data of each output; None if a step must fail."""

    inputs: dict[str, object]
    expected: dict[str, list[object]] | None
    steps: Mapping[str, StepRequest]


def choose_run(pipeline: str, rng: random.Random) -> RunInputs:
    """Return a run. If its model fails a few times, its input `key` is that of the submission."""
    match pipeline:
        case "chain":
            numbers, ms = [rng.randint(-4000, 4000) / 4 for _ in range(rng.randint(1, 8))], rng.choice((5, 20, 100))
            expected: dict[str, list[object]] = {"y": [8 * each for each in numbers], "slept": [ms]}
            expected["early"] = [2 * each for each in numbers]
            return RunInputs({"x": [numbers], "ms": [[ms]]}, expected, list_steps(pipeline))
        case "each":
            sleeps = [rng.randint(1, 20) for _ in range(rng.randint(*ELEMENTS))]
            lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 4))]
            expected = {
                "slept": [*sleeps],
                "counts": [len(find_words(line)) for line in lines],
                "words": [*find_words(" ".join(lines))],
            }
            steps = list_steps(pipeline, rows=StepRequest(len(sleeps)), lines=StepRequest(len(lines)))
            return RunInputs({"ms": [[each] for each in sleeps], "text": lines}, expected, steps)
        case "fallback":
            failures = rng.choice((1, 2))
            steps = list_steps(pipeline, fails=StepRequest(kind="fail_times", failures=failures))
            return RunInputs({"mode": ["fail_times"], "value": [failures]}, {"words": ["ok"]}, steps)
        case _:
            mode = rng.choice(("raise", "invalid", "fail_times"))
            sleeps = rng.choices((5, 50, 400), k=3)
            fails = StepRequest(kind=mode, failures=1 if mode == "fail_times" else 0)
            steps = list_steps(pipeline, fails=fails, beside=StepRequest(len(sleeps)))
            made: dict[str, list[object]] = {"words": ["ok"], "slept": [*sleeps]}
            inputs: dict[str, object] = {"mode": [mode], "value": [1], "ms": [[each] for each in sleeps]}
            return RunInputs(inputs, made if fails.failures else None, steps)


def list_steps(pipeline: str, **given: StepRequest) -> dict[str, StepRequest]:
    """Return the steps of a pipeline. Those that are not given have one job, which succeeds."""
    return {step: given.get(step, StepRequest()) for step in DEFINITIONS[pipeline]["steps"]}


def find_words(text: str) -> list[str]:
    """Return what the model `words` answers to this text."""
    return list(dict.fromkeys(text.lower().split()))


def find_needs(pipeline: str) -> dict[str, set[str]]:
    """Return the steps that each step of a pipeline refers to."""
    return {
        name: {reference[1:].split(".")[0] for reference in step["inputs"].values()} - {"inputs"}
        for name, step in DEFINITIONS[pipeline]["steps"].items()
    }
