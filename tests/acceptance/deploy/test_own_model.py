"""The guide "Bring your own model", step by step, beside a model that cannot be loaded."""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.processes.ports import free_block
from deploy.local.settings import ROOT
from services.gateway.auth.authentication import CACHED_SECONDS
from tests.support.api.model_inputs import LINES
from tests.support.command_line import run_sources
from tests.support.guides import find_exports
from tests.support.waiting import eventually

GUIDE = (ROOT / "docs" / "how-to" / "bring-your-own-model.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEADLINE = 120.0
PHOTO = 200_000  # bytes; a shell allows an argument 128 KiB
READY = "Charonia is ready."
# A graph with one node: y = Neg(x), both FP32 of one dimension. IR version 8, opset 13.
NEGATE = base64.b64decode("CAg6NAoLCgF4EgF5IgNOZWcSAWdaEAoBeBILCgkIARIFCgMSAW5iEAoBeRILCgkIARIFCgMSAW5CBAoAEA0=")


def read_blocks(heading: str) -> list[tuple[str, str]]:
    """Return the language and the text of each code block of a section."""
    section = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [(match[1], match[2]) for match in BLOCK.finditer(section)]


def find_block(heading: str, language: str, number: int = 0) -> str:
    return [text for kind, text in read_blocks(heading) if kind == language][number]


@dataclass
class Trial:
    """A clone's terminal, with a stack and models of its own."""

    models: Path
    environment: dict[str, str]
    url: str = ""
    output: str = ""

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the guide against this stack."""
        command = command.replace("$PWD/models", str(self.models)).replace("localhost:8080", self.url.split("/")[-1])
        command = run_sources(command)
        command = re.sub(r"^make ", "make -s -o .venv/.installed ", command, flags=re.MULTILINE)
        return subprocess.run(
            ["sh", "-ec", command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )

    def write(self, path: str, text: str | bytes) -> None:
        file = self.models / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def call(self, model: str, inputs: dict[str, Any], key: str = "ch_dev") -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}", "Prefer": "wait=30"}
        return httpx.post(f"{self.url}/v1/jobs", json={"model": model, "inputs": inputs}, headers=headers, timeout=40)

    def get_model(self, model: str) -> dict[str, Any]:
        answer = httpx.get(f"{self.url}/v1/models/{model}", headers={"Authorization": "Bearer ch_dev"}, timeout=40)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """The guide's model and a broken one, after the guide's `make up`."""
    place = tmp_path_factory.mktemp("trial")
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment |= {"STACK_DIR": str(place / "stack"), "PORT_BASE": str(free_block(55))}
    trial = Trial(place / "models", environment)
    heading = "Try it on one machine"
    files = find_block(heading, "text").replace("models/", "").split()
    trial.write(files[0], find_block(heading, "text", 1))
    trial.write(files[1], find_block(heading, "python"))
    trial.write("torchy/config.pbtxt", find_block(heading, "text", 1).replace("reverse", "torchy", 1))
    trial.write("torchy/1/model.py", "import torch_of_nobody\n")
    assert find_block(heading, "sh") == "MODELS=$PWD/models make up\n"
    log = place / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            [sys.executable, "-m", "deploy.local", "up"],
            cwd=ROOT,
            env=environment | {"MODELS": str(trial.models)},
            stdout=output,
            stderr=output,
        )
    try:

        async def poll() -> bool:
            assert up.poll() is None, log.read_text()
            return READY in log.read_text() and "Ctrl-C stops" in log.read_text()

        asyncio.run(eventually(poll, "the stack is ready", DEADLINE))
        trial.output = log.read_text()
        found = re.search(r"API +(\S+)", trial.output)
        assert found is not None
        trial.url = found[1]
        yield trial
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(DEADLINE) == 0


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
        blocks = [match[2] for match in BLOCK.finditer((ROOT / place).read_text()) if match[1] == "sh"]
        commands = [text for text in blocks if '"model": "ocr"' in text]
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
        return trial.get_model("torchy")["reason"] is not None

    asyncio.run(eventually(poll, "the reason is known"))
    model = trial.get_model("torchy")
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
    alone = Trial(trial.models, trial.environment | {"STACK_DIR": str(tmp_path)})
    done = alone.run("make key TENANT=acme")
    assert (done.returncode != 0, "start it with `make up`" in done.stderr) == (True, True)
