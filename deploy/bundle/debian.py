"""Gets Debian packages without installing them, and puts the needed files into the tree of the bundle."""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.bundle.parts import is_kept
from deploy.local.errors import LocalError
from deploy.local.processes.command import run

SECONDS = 600.0
OS_RELEASE = Path("/etc/os-release")
LICENCE = "usr/share/doc/{}/copyright"
ERL = Path("usr/lib/erlang/bin/erl")
SYSCONFIG = "usr/lib/python3.11/_sysconfigdata__x86_64-linux-gnu.py"
FIND_ROOT = 'ROOTDIR=$(dirname "$(dirname "$(readlink -f "$0")")")'
FIND_LIBRARIES = '\nimport sys\nbuild_time_vars["LIBDIR"] = sys.base_prefix + "/lib"\n'


@dataclass(frozen=True)
class Package:
    """`source` is the source package with its version."""

    name: str
    version: str
    source: str


def require_release(release: str) -> None:
    """Raise LocalError unless this machine's packages are those of a release of Debian."""
    found = OS_RELEASE.read_text() if OS_RELEASE.exists() else ""
    if f"VERSION_CODENAME={release}" not in found:
        raise LocalError(f"the bundle has programs of Debian {release}: build it there")


def download(names: Sequence[str], directory: Path) -> list[Path]:
    """Download packages, checked by apt, into an empty directory; return their files."""
    directory.mkdir(parents=True)
    if os.geteuid() == 0:
        run(["apt-get", "update"], timeout=SECONDS, env=dict(os.environ))
    # apt downloads into the working directory, and with root's rights, because the directory may be closed to others.
    command = 'cd "$1" && shift && exec apt-get download --quiet "$@"'
    options = ["-o", "APT::Sandbox::User=root"]
    run(["sh", "-c", command, "apt", str(directory), *options, *names], timeout=SECONDS, env=dict(os.environ))
    return sorted(directory.glob("*.deb"))


def describe(file: Path) -> Package:
    """Return the name, version and source of a package."""
    text = run(
        ["dpkg-deb", "--show", "--showformat=${Package}\t${Version}\t${source:Package} ${source:Version}", str(file)],
        timeout=30,
    )
    name, version, source = text.split("\t")
    return Package(name, version, source)


def unpack(files: Iterable[Path], directory: Path) -> None:
    """Unpack packages; libraries in /lib are put into /usr/lib, where they are on an installed system."""
    (directory / "usr/lib").mkdir(parents=True)
    (directory / "lib").symlink_to("usr/lib")
    for file in files:
        with_links = ["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"', "unpack"]
        run([*with_links, str(file), str(directory)], timeout=60)


def copy_kept(source: Path, tree: Path) -> None:
    """Copy the files that the bundle needs."""
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder, name)
            relative = path.relative_to(source)
            if is_kept(relative.as_posix()):
                (tree / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, tree / relative, follow_symlinks=False)


def copy_licences(source: Path, tree: Path, packages: Iterable[Package]) -> None:
    """Copy the licence of each package, which may be a link to that of another; raise LocalError if one is missing."""
    for package in packages:
        path = LICENCE.format(package.name)
        if not (source / path).is_file():
            raise LocalError(
                f"{package.name} has no {path}: add the package that it links to in deploy/bundle/parts.py"
            )
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, tree / path)


def make_relocatable(tree: Path) -> None:
    """Let Erlang find its root, and Python its library, in whatever folder they are."""
    erl = tree / ERL
    text = erl.read_text()
    erl.write_text(text.replace("ROOTDIR=/usr/lib/erlang", FIND_ROOT))
    data = tree / SYSCONFIG
    data.write_text(data.read_text() + FIND_LIBRARIES)
