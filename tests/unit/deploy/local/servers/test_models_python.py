"""Another Python for Triton's models: what is refused, and which packages win."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.errors import InvalidSetting
from deploy.local.servers.models_python import ModelsPython, ask, find_models_python

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON = Path(sys.executable)


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    folder = tmp_path / "stubs"
    for version in ("3.9", VERSION):
        (folder / version).mkdir(parents=True)
    return folder


def add_package(folder: Path, numpy: str) -> str:
    """Add a NumPy of some version, and packages that tell where they come from."""
    folder.mkdir(parents=True)
    (folder / "numpy.py").write_text(f"__version__ = '{numpy}'\n")
    (folder / f"only_{folder.name}.py").touch()
    return str(folder)


def make_python(stubs: Path, *sites: str) -> ModelsPython:
    """Return this interpreter with other packages."""
    return replace(find_models_python(PYTHON, stubs), sites=sites)


def test_an_interpreter_is_described(stubs: Path) -> None:
    found = find_models_python(PYTHON, stubs)
    assert (found.version, found.executable) == (VERSION, PYTHON.resolve())
    assert any(site.startswith(sys.prefix) for site in found.sites)


def test_a_version_without_a_stub_is_refused(stubs: Path) -> None:
    (stubs / VERSION).rename(stubs / "3.10")
    wanted = rf"^MODELS_PYTHON is .*, which is Python {VERSION}; Triton can use 3\.9, 3\.10: choose one of these$"
    with pytest.raises(InvalidSetting, match=wanted):
        find_models_python(PYTHON, stubs)


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="MODELS_PYTHON is /nowhere/python3, which does not work"):
        find_models_python(Path("/nowhere/python3"), tmp_path)


def test_a_program_that_is_no_python_is_refused(stubs: Path) -> None:
    with pytest.raises(InvalidSetting, match="MODELS_PYTHON is /bin/true, which is no Python"):
        find_models_python(Path("/bin/true"), stubs)


def test_our_packages_win_and_the_others_are_there_too(stubs: Path, tmp_path: Path) -> None:
    theirs = add_package(tmp_path / "theirs", "2.5.2")
    add_package(tmp_path / "packages" / VERSION, "1.26.4")
    python = make_python(stubs, theirs)
    python.make_environment(tmp_path / "environment", tmp_path / "packages")
    shown = ask(tmp_path / "environment/bin/python3", "import numpy, only_theirs; print(numpy.__version__)", {})
    assert shown == "1.26.4"


def test_a_numpy_that_triton_cannot_use_is_refused(stubs: Path, tmp_path: Path) -> None:
    theirs = add_package(tmp_path / "theirs", "2.5.2")
    python = make_python(stubs, theirs)
    with pytest.raises(InvalidSetting, match=r"which has NumPy 2\.5\.2: Triton's Python backend needs NumPy 1$"):
        python.make_environment(tmp_path / "environment", tmp_path / "packages")


def test_an_interpreter_without_its_library_is_refused(stubs: Path, tmp_path: Path) -> None:
    python = replace(make_python(stubs), version="3.0")
    with pytest.raises(InvalidSetting, match=r"has no libpython3\.0\.so\.1\.0, .*: install the package libpython3\.0$"):
        python.make_environment(tmp_path / "environment", tmp_path / "packages")
