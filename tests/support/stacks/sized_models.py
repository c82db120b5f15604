"""A repository of models that take memory and time to load, and how much of it Triton's processes have."""

from collections.abc import Iterable
from pathlib import Path

CODE = """
import os
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        folder = Path(args["model_repository"], args["model_version"])
        self._memory = bytearray(int((folder / "bytes").read_text()))
        for place in range(0, len(self._memory), 4096):
            self._memory[place] = 1
        self._compute_seconds = float((folder / "compute").read_text())
        deadline = time.monotonic() + float((folder / "seconds").read_text())
        while time.monotonic() < deadline or (folder / "hold").exists():
            time.sleep(0.05)
        if (folder / "broken").exists():
            raise RuntimeError((folder / "broken").read_text())

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        time.sleep(self._compute_seconds)
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", (x * 2).astype("float32"))])
"""
CONFIG = """
name: "%s"
backend: "python"
max_batch_size: 1
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
STEP = (
    'step [ { model_name: "%s" model_version: -1 '
    'input_map { key: "x" value: "%s" } output_map { key: "y" value: "%s" } } ]\n'
)
PARAMETER = 'parameters { key: "%s" value { string_value: "%s" } }\n'
STUB = "triton_python_b"  # the name of a model's process, as Linux shortens it


class SizedModels:
    """The models in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, size: int, seconds: float = 0.1, compute_seconds: float = 0.0, **settings: str) -> None:
        """Add a model that takes `size` bytes, `seconds` to load, and `compute_seconds` for each request.

        `settings` are its parameters without `charonia.`.
        """
        version = self.folder / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CODE)
        (version / "bytes").write_text(str(size))
        (version / "seconds").write_text(str(seconds))
        (version / "compute").write_text(str(compute_seconds))
        self.declare(name, **settings)

    def add_ensemble(self, name: str, *steps: str, **settings: str) -> None:
        """Add an ensemble that runs models one after the other."""
        (self.folder / name / "1").mkdir(parents=True)
        tensors = ["x", *(f"t{number}" for number in range(1, len(steps))), "y"]
        lines = [STEP % (step, *tensors[number : number + 2]) for number, step in enumerate(steps)]
        config = CONFIG % name
        config = config[: config.index("instance_group")].replace('backend: "python"', 'platform: "ensemble"')
        parameters = [PARAMETER % (f"charonia.{key}", value) for key, value in settings.items()]
        text = f"{config}ensemble_scheduling {{\n{''.join(lines)}}}\n{''.join(parameters)}"
        (self.folder / name / "config.pbtxt").write_text(text)

    def declare(self, name: str, **settings: str) -> None:
        lines = [PARAMETER % (f"charonia.{key}", value) for key, value in settings.items()]
        (self.folder / name / "config.pbtxt").write_text(CONFIG % name + "".join(lines))

    def hold(self, name: str) -> Path:
        """Let loads of a model last until the file that this returns is removed."""
        file = self.folder / name / "1" / "hold"
        file.touch()
        return file

    def break_loads(self, name: str, error: str) -> Path:
        """Let loads of a model fail until the file that this returns is removed."""
        file = self.folder / name / "1" / "broken"
        file.write_text(error)
        return file


def measure_models(server: int) -> int:
    """Return the bytes that the processes of models have, which the server with this process id started."""
    return sum(read_resident(pid) for pid in list_models(server))


def list_models(server: int) -> list[int]:
    """Return the process ids of the models of a server: its descendants with the name STUB."""
    parents = dict(read_parents())
    return [pid for pid, (name, _) in parents.items() if name == STUB and server in list_ancestors(pid, parents)]


def read_parents() -> Iterable[tuple[int, tuple[str, int]]]:
    """Yield each process with its name and its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:  # it has ended
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            yield int(folder.name), (name, int(rest.split()[1]))


def list_ancestors(pid: int, parents: dict[int, tuple[str, int]]) -> set[int]:
    found = set[int]()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid][1]
    return found


def read_resident(pid: int) -> int:
    """Return the bytes of a process that are its own: those that it shares count for another one."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines[1:]}
    return sizes["Private_Clean"] + sizes["Private_Dirty"]
