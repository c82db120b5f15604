"""Another Python for the processes of Triton's models, such as one that has PyTorch.

Triton's stub takes modules only from an environment whose `python3` is first on PATH. So an environment is made that
has the other Python's packages, and before them those that Triton needs in another version.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import CommandFailed, InvalidSetting
from deploy.local.processes.command import run

VARIABLE = "MODELS_PYTHON"
SECONDS = 60.0  # a large Python on a slow disk takes long to start
NUMPY = 1  # the major version that Triton's Python backend can use
DESCRIBE = """
import json, os, sys, sysconfig
sites = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
version = "{0}.{1}".format(*sys.version_info)
print(json.dumps([version, sysconfig.get_config_var("LIBDIR"), os.path.realpath(sys._base_executable), sites]))
"""
TRY_LIBRARY = "import ctypes; ctypes.CDLL('{}')"
TRY_NUMPY = "import numpy; print(numpy.__version__)"


@dataclass(frozen=True)
class ModelsPython:
    """`version` is like 3.12, `libraries` the folder of its library, and `sites` those of its packages."""

    chosen: Path
    version: str
    libraries: str
    executable: Path
    sites: tuple[str, ...]

    def make_environment(self, directory: Path, packages: Path) -> None:
        """Make the environment anew. `packages` may have a folder for this version, with packages that win.

        Raises InvalidSetting if Triton cannot use it.
        """
        shutil.rmtree(directory, ignore_errors=True)
        python = directory / "bin" / "python3"
        python.parent.mkdir(parents=True)
        python.symlink_to(self.executable)
        (directory / "pyvenv.cfg").write_text(f"home = {self.executable.parent}\n")
        site = directory / "lib" / f"python{self.version}" / "site-packages"
        site.mkdir(parents=True)
        folders = [str(packages / self.version), *self.sites]
        (site / "charonia.pth").write_text("".join(f"import site; site.addsitedir({each!r})\n" for each in folders))
        self._check(python)

    def _check(self, python: Path) -> None:
        environment = {"LD_LIBRARY_PATH": self.libraries}
        library = f"libpython{self.version}.so.1.0"
        try:
            ask(python, TRY_LIBRARY.format(library), environment)
        except InvalidSetting as error:
            text = f"has no {library}, with which Triton runs models: install the package libpython{self.version}"
            raise InvalidSetting(f"{VARIABLE} is {self.chosen}, which {text}") from error
        numpy = ask(python, TRY_NUMPY, environment)
        if int(numpy.split(".")[0]) != NUMPY:
            text = f"which has NumPy {numpy}: Triton's Python backend needs NumPy {NUMPY}"
            raise InvalidSetting(f"{VARIABLE} is {self.chosen}, {text}")


def find_models_python(python: Path, stubs: Path) -> ModelsPython:
    """Describe an interpreter; raise InvalidSetting if Triton has no stub for its version in the folder `stubs`."""
    try:
        version, libraries, executable, sites = json.loads(ask(python, DESCRIBE, {}))
    except ValueError as error:
        raise InvalidSetting(f"{VARIABLE} is {python}, which is no Python") from error
    known = sorted((each.name for each in stubs.iterdir()), key=lambda name: [int(part) for part in name.split(".")])
    if version not in known:
        text = f"Triton can use {', '.join(known)}: choose one of these"
        raise InvalidSetting(f"{VARIABLE} is {python}, which is Python {version}; {text}")
    return ModelsPython(python, version, libraries, Path(executable), tuple(sites))


def ask(python: Path, program: str, environment: Mapping[str, str]) -> str:
    """Return what a program prints in an interpreter; raise InvalidSetting if it fails."""
    try:
        return run([str(python), "-c", program], timeout=SECONDS, env=environment).strip()
    except (CommandFailed, OSError) as error:
        raise InvalidSetting(f"{VARIABLE} is {python}, which does not work: {error}") from error
