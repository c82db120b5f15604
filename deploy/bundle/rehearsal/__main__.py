"""`python -m deploy.bundle.rehearsal` installs the bundle in places without a network, and uses all of it there.

The places are this machine, a bare Debian 12 and a bare Debian 13, each with root and without. It needs root,
debootstrap and a network to make the bare systems, and ten minutes the first time. They stay in .charonia/bundle-test.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from deploy.bundle.__main__ import BUNDLE, CHECKSUMS
from deploy.bundle.rehearsal.places import NOBODY, Place, make_system
from deploy.local.errors import CommandFailed, LocalError
from deploy.local.settings import ROOT
from deploy.local.terminal import say

SYSTEMS = ROOT / ".charonia" / "bundle-test"
RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
INSTALLED, VERIFIED = "Installed in", "  verified "
WITHIN = 600.0  # seconds for one place
SHOWN = 60  # lines of a failure


@dataclass(frozen=True)
class Times:
    """Seconds from the start of the installer."""

    installed: float
    first_webhook: float
    everything: float


def main() -> int:
    argparse.ArgumentParser(prog="python -m deploy.bundle.rehearsal", description=__doc__).parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if os.geteuid() != 0:
            raise LocalError("this makes namespaces and bare systems; run it as root")
        if not (BUNDLE / CHECKSUMS).exists():
            raise LocalError(f"there is no bundle in {BUNDLE}; run: make bundle")
        for line in rehearse():
            say(line)
    except (LocalError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def rehearse() -> list[str]:
    """Return a table with a line for each place; raise LocalError if something does not work there."""
    say("Making bare systems …")
    roots: dict[str, Path | None] = {"this machine": None}
    roots |= {name: make_system(release, SYSTEMS) for release, name in RELEASES.items()}
    row = "{:<28}  {:<32}  {:>9}  {:>13}  {:>10}"
    lines = [row.format("place", "it has", "installed", "first webhook", "everything")]
    for name, root in roots.items():
        for as_root in (True, False):
            place = Place(f"{name}, {'root' if as_root else 'without root'}", root, as_root)
            versions = place.describe()
            say(f"{place.name}: {versions} …")
            times = use(place)
            shown = (f"{seconds:.1f} s" for seconds in (times.installed, times.first_webhook, times.everything))
            lines.append(row.format(place.name, versions, *shown))
    return lines


def use(place: Place) -> Times:
    """Install the bundle in a place, run the demo and the stack; raise CommandFailed, with what was printed."""
    target = Path(tempfile.mkdtemp(prefix="charonia-bundle-"))
    try:
        target.chmod(0o755)
        if not place.as_root:
            os.chown(target, NOBODY, NOBODY)
        return _watch(place.command(BUNDLE, target))
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _watch(argv: list[str]) -> Times:
    began = time.monotonic()
    installed = verified = None
    printed = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as child:
        end = threading.Timer(WITHIN, child.kill)  # and with it, everything in its namespaces
        end.start()
        try:
            for line in child.stdout or ():
                printed.append(line)
                if installed is None and line.startswith(INSTALLED):
                    installed = time.monotonic() - began
                if verified is None and VERIFIED in line:
                    verified = time.monotonic() - began
        except BaseException:
            child.kill()
            raise
        finally:
            end.cancel()
    everything = time.monotonic() - began
    if child.returncode != 0 or installed is None or verified is None:
        raise CommandFailed(
            f"it ended with code {child.returncode} after {everything:.0f} s:\n{''.join(printed[-SHOWN:])}"
        )
    return Times(installed, verified, everything)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
