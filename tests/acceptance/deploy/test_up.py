"""The stack of `make up`: the guide "Bring your own model", step by step, beside a model that cannot be loaded.

Then parts of the stack die.
"""

import asyncio
import base64
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.settings import ROOT
from services.gateway.auth.authentication import CACHED_SECONDS
from tests.support.api.model_inputs import LINES
from tests.support.guides import find_exports
from tests.support.stacks.made_stack import Trial, find_block, find_blocks, make_up
from tests.support.waiting import eventually

PHOTO = 200_000  # bytes; a shell allows an argument 128 KiB
# A graph with one node: y = Neg(x), both FP32 of one dimension. IR version 8, opset 13.
NEGATE = base64.b64decode("CAg6NAoLCgF4EgF5IgNOZWcSAWdaEAoBeBILCgkIARIFCgMSAW5iEAoBeRILCgkIARIFCgMSAW5CBAoAEA0=")
KILLED = ("postgres", "dispatcher")  # a server and a service; tests of outages kill and start the others


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with make_up(tmp_path_factory.mktemp("trial")) as trial:
        yield trial


def read_answer(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_guides_model_runs_beside_the_demos(trial: Trial) -> None:
    job = read_answer(trial.run(find_block("Try it on one machine", "sh", 1)))
    assert (job["status"], job["outputs"][0]["data"]) == ("succeeded", ["olleh"])
    program = find_block("Try it on one machine", "python", 1)
    printed = trial.run(f"PYTHONPATH=client .venv/bin/python - <<'END'\n{program}END\n")
    assert printed.stdout == "[['olleh']]\n", printed.stderr
    assert trial.call("echo", {"x": [[1.0]]}).json()["status"] == "succeeded"
    refused = trial.call("reverse", {"text": [[""]]}).json()
    assert (refused["status"], refused["error"]["code"]) == ("failed", "invalid_input")


@pytest.mark.parametrize("place", ["docs/how-to/submit-jobs.md", "make up"])
def test_an_image_larger_than_an_argument_is_read(trial: Trial, tmp_path: Path, place: str) -> None:
    image = tmp_path / "photo.png"
    image.write_bytes((ROOT / "deploy/local/demo.png").read_bytes() + bytes(PHOTO))  # ignored behind the image
    if place == "make up":
        commands = [line for line in trial.output.splitlines() if "charonia run" in line]
    else:
        commands = [text for text in find_blocks((ROOT / place).read_text(), "sh") if '"model": "ocr"' in text]
    assert len(commands) == (1 if place == "make up" else 2)  # in the request, and as a file
    for command in commands:
        job = read_answer(trial.run(command.replace("deploy/local/demo.png", str(image))))
        headers = {"Authorization": "Bearer ch_dev"}
        ended = httpx.get(f"{trial.url}/v1/jobs/{job['id']}?wait=30", headers=headers, timeout=40).json()
        assert (ended["status"], ended["outputs"][0]["data"]) == ("succeeded", LINES)


def test_up_says_what_is_broken_and_where_metrics_are(trial: Trial) -> None:
    assert "torchy: Internal: ModuleNotFoundError: No module named 'torch_of_nobody'" in trial.output
    metrics = re.findall(r"(http://\S+/metrics) \((\w+)\)", trial.output)
    assert {name for _, name in metrics} == {"gateway", "dispatcher", "notifier", "triton"}
    for url, _ in metrics:
        assert httpx.get(url, timeout=40).is_success
    assert "CudaDriverHelper" not in trial.output


def test_a_broken_model_is_listed_and_a_submit_says_why(trial: Trial) -> None:
    async def poll() -> bool:
        return trial.get("models/torchy")["reason"] is not None

    asyncio.run(eventually(poll, "the reason is known"))
    model = trial.get("models/torchy")
    assert (model["ready"], model["versions"][0]["ready"]) == (False, False)
    assert "No module named 'torch_of_nobody'" in model["reason"]
    refused = trial.call("torchy", {"text": [["x"]]})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:charonia:problem:model_not_loaded")
    assert "No module named 'torch_of_nobody'" in refused.json()["detail"]
    headers = {"Authorization": "Bearer ch_dev"}
    protocol = httpx.post(f"{trial.url}/v2/models/torchy/infer", json={"inputs": []}, headers=headers)
    assert (protocol.status_code, "no available versions" in protocol.text) == (404, True)


def test_a_repaired_model_and_a_new_one_are_loaded_by_reload(trial: Trial) -> None:
    command = find_block("Reload it", "sh")
    broken = trial.run(command.replace("reverse", "torchy"))
    assert (broken.returncode != 0, "No module named 'torch_of_nobody'" in broken.stderr) == (True, True)
    unknown = trial.run(command.replace("reverse", "nobody"))
    assert "it has" in unknown.stderr
    heading = "Try it on one machine"
    for name in ("torchy", "fresh"):
        trial.write(f"{name}/config.pbtxt", find_block(heading, "text", 1).replace("reverse", name, 1))
        trial.write(f"{name}/1/model.py", find_block(heading, "python"))
        loaded = trial.run(command.replace("reverse", name))
        assert (loaded.returncode, loaded.stdout) == (0, f"{name} is ready.\n"), loaded.stderr
        assert trial.call(name, {"text": [["hello"]]}).json()["outputs"][0]["data"] == ["olleh"]


def test_a_model_that_broke_shows_the_reason_and_its_jobs_wait(trial: Trial) -> None:
    code = trial.models / "reverse" / "1" / "model.py"
    whole = code.read_text()
    code.write_text("import nothing_of_the_kind\n")
    try:
        broken = trial.run(find_block("Reload it", "sh"))
        assert "nothing_of_the_kind" in broken.stderr

        async def poll() -> bool:
            model = read_answer(trial.run(find_block("When it does not load", "sh")))
            return not model["ready"] and "nothing_of_the_kind" in (model["reason"] or "")

        asyncio.run(eventually(poll, "the API has the reason"))
        headers = {"Authorization": "Bearer ch_dev"}
        body = {"model": "reverse", "inputs": {"text": [["hello"]]}}
        job = httpx.post(f"{trial.url}/v1/jobs", json=body, headers=headers)
        assert job.status_code == 202
    finally:
        code.write_text(whole)
        assert trial.run(find_block("Reload it", "sh")).returncode == 0
    ended = httpx.get(f"{trial.url}/v1/jobs/{job.json()['id']}?wait=30", headers=headers, timeout=40).json()
    assert (ended["status"], ended["outputs"][0]["data"]) == ("succeeded", ["olleh"])


def test_a_package_is_added(trial: Trial, tmp_path: Path) -> None:
    name = f"charonia_guide_{os.getpid()}"  # in place of the guide's, which would need the network
    module = "def findall(pattern, text):\n    return list(text) if pattern == r'\\X' else []\n"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel := tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    code = trial.models / "reverse" / "1" / "model.py"
    added = find_block("Add Python packages", "python").replace("regex", name)
    own = re.sub(r"def reverse\(text\):\n.*?\n\n", lambda _: f"{added}\n", code.read_text(), flags=re.DOTALL)
    assert name in own
    code.write_text(own)
    command = find_block("Add Python packages", "sh").replace("regex", f"--no-index {wheel}")
    done = trial.run(command)
    try:
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "reverse is ready."), done.stderr
        assert trial.call("reverse", {"text": [["hello"]]}).json()["outputs"][0]["data"] == ["olleh"]
    finally:
        trial.run(f".charonia/triton-venv/bin/python -m pip uninstall -qy {name}")
        code.write_text(find_block("Try it on one machine", "python"))


def test_an_onnx_file_runs_in_a_python_model(trial: Trial) -> None:
    trial.write("negate/config.pbtxt", find_block("Run an ONNX model", "text"))
    trial.write("negate/1/model.py", find_block("Run an ONNX model", "python"))
    trial.write("negate/1/model.onnx", NEGATE)
    loaded = trial.run("make reload MODEL=negate")
    assert loaded.returncode == 0, loaded.stderr
    job = trial.call("negate", {"x": [1.0, -2.5]}).json()
    assert (job["status"], job["outputs"][0]["data"]) == ("succeeded", [-1.0, 2.5])


def test_a_key_is_made_in_one_line_and_revoked_at_once_with_the_guides_variables(trial: Trial) -> None:
    made = trial.run('make key TENANT=acme MODEL="ec* ocr" NAME="the reports"')
    assert (made.returncode, "for the models ec*, ocr, with the scopes read, submit" in made.stderr) == (0, True)
    key = made.stdout.strip()
    assert trial.call("echo", {"x": [[2.0]]}, key).json()["status"] == "succeeded"
    refused = httpx.get(f"{trial.url}/v1/webhook-secret", headers={"Authorization": f"Bearer {key}"})
    assert refused.status_code == 403
    keys = f"{find_exports(trial.environment['STACK_DIR'])}.venv/bin/python -m services.gateway.commands.keys"
    (shown,) = json.loads(trial.run(f"{keys} list acme --json").stdout)
    assert (shown["name"], shown["models"], shown["scopes"]) == ("the reports", ["ec*", "ocr"], ["read", "submit"])
    revoked = trial.run(f"{keys} revoke {shown['id']}")
    assert (revoked.returncode, revoked.stdout) == (0, f"Revoked {shown['id']}.\n"), revoked.stderr

    async def is_refused() -> bool:
        return trial.call("echo", {"x": [[2.0]]}, key).status_code == 401

    asyncio.run(eventually(is_refused, "the gateway refuses the key", CACHED_SECONDS / 2))


def test_a_second_start_names_the_stack_and_stops_nothing(trial: Trial) -> None:
    again = trial.run("make up")
    assert (again.returncode != 0, "Stopping" in again.stdout) == (True, False)
    assert "already running" in again.stderr
    assert "PORT_BASE" in again.stderr
    assert f"PORT_BASE={trial.environment['PORT_BASE']} make key TENANT=" in trial.output


def test_without_a_stack_a_command_says_so(trial: Trial, tmp_path: Path) -> None:
    alone = Trial(trial.models, trial.environment | {"STACK_DIR": str(tmp_path)}, trial.log)
    done = alone.run("make key TENANT=acme")
    assert (done.returncode != 0, "start it with `make up`" in done.stderr) == (True, True)


async def test_a_part_that_is_killed_is_started_again(trial: Trial) -> None:
    for part in KILLED:
        trial.kill(part)
        await trial.wait_for(f"{part} ended with code -9, and is started again. Its log: ")
        assert await trial.run_job() == "succeeded", part
    assert trial.log.read_text().count("is started again") == len(KILLED)


async def test_a_service_is_restarted_on_request(trial: Trial) -> None:
    done = await asyncio.to_thread(trial.run, "make restart SERVICE=notifier")
    assert (done.returncode, done.stdout) == (0, "notifier is ready.\n"), done.stderr
    assert trial.log.read_text().count("notifier is restarted.") == 1
    assert await trial.run_job() == "succeeded"
