"""The environment of Triton, and its end."""

import signal
import sys
import sysconfig
from pathlib import Path

import pytest

from deploy.local.servers import triton as module
from deploy.local.servers.triton import Triton


def make_venv(folder: Path) -> Path:
    """Make an environment with the folders of Triton."""
    venv = folder / "venv"
    package = venv / "lib" / "python3.11" / "site-packages" / "pytriton" / "tritonserver"
    for each in (package / "bin", package / "backends" / "python", venv / "bin"):
        each.mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    return venv


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "{own}"), ("", "{own}"), ("/usr/local/nvidia/lib64", "{own}:/usr/local/nvidia/lib64")],
)
def test_libraries_of_the_machine_come_behind_those_of_the_interpreter(
    given: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if given is not None:
        monkeypatch.setenv("LD_LIBRARY_PATH", given)
    triton = Triton(tmp_path, tmp_path / "models", 1, 2, 3, make_venv(tmp_path))
    assert triton.environment["LD_LIBRARY_PATH"] == expected.format(own=sysconfig.get_config_var("LIBDIR"))


def test_a_server_that_hangs_in_its_crash_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CRASH_SECONDS", 0.1)
    triton = Triton(tmp_path, tmp_path / "models", 1, 2, 3, make_venv(tmp_path))
    server = Path(triton.argv[0])
    server.write_text("#!/bin/sh\necho 'double free or corruption (out)'\necho 'Signal (6) received.'\nexec sleep 60\n")
    server.chmod(0o755)
    triton.launch()
    assert triton.process.wait_exit(20) == -signal.SIGKILL
    triton.stop()
