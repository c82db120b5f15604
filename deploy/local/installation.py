"""Where the programs and the data are: in the repository and the system, or in an installation from a bundle."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the repository, or its copy in an installation
MARKER = "bundle.json"  # in the folder of an installation; see deploy/bundle


def find_installation(root: Path) -> Path | None:
    """Return the folder of the installation that has this copy of the repository; None for a repository."""
    return root.parent if (root.parent / MARKER).is_file() else None


INSTALLATION = find_installation(ROOT)
PLACE = INSTALLATION or ROOT  # relative paths count from here
DATA = INSTALLATION / "data" if INSTALLATION else ROOT / ".charonia"
USR = INSTALLATION / "usr" if INSTALLATION else Path("/usr")  # has the servers' programs


def command_for(target: str, **values: str) -> str:
    """Return the command of a target of the Makefile, which is a program of an installation."""
    if INSTALLATION is None:
        return " ".join(["make", target, *(f"{name}={value}" for name, value in values.items())])
    return " ".join([str(INSTALLATION / target), *values.values()])
