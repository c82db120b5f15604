"""The environment of Triton."""

import sys
import sysconfig
from pathlib import Path

import pytest

from deploy.local.servers.triton import Triton


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
    venv = tmp_path / "venv"
    (venv / "lib" / "python3.11" / "site-packages" / "pytriton" / "tritonserver").mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(sys.executable)
    triton = Triton(tmp_path, tmp_path / "models", 1, 2, 3, venv)
    assert triton.environment["LD_LIBRARY_PATH"] == expected.format(own=sysconfig.get_config_var("LIBDIR"))
