"""`python -m deploy.compose.images` builds the images of the services, with the labels of the last commit.

Two builds of a commit, on the same base image, have the same files with the same times.
"""

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from common import VERSION
from deploy.local.errors import LocalError
from deploy.local.processes.command import run
from deploy.local.settings import ROOT

SERVICES = ("gateway", "dispatcher", "notifier")
DOCKERFILE = ROOT / "deploy" / "compose" / "Dockerfile"
GIT = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
GIT_SECONDS = 60.0
BUILD_SECONDS = 1800.0


def read_labels() -> dict[str, str]:
    """Return the build arguments that say what is built: the version, the commit and its time; raise CommandFailed."""
    revision = run([*GIT, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], timeout=GIT_SECONDS).strip()
    seconds = int(run([*GIT, "log", "-1", "--format=%ct"], timeout=GIT_SECONDS))
    created = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"VERSION": VERSION, "REVISION": revision, "CREATED": created, "SOURCE_DATE_EPOCH": str(seconds)}


def build_command(service: str, name: str, arguments: dict[str, str], context: Path = ROOT) -> list[str]:
    """Return the arguments of `docker`, for one image."""
    given = {"SERVICE": service, **arguments}
    options = [option for key, value in given.items() for option in ("--build-arg", f"{key}={value}")]
    return ["build", "-f", str(DOCKERFILE), *options, "-t", name, str(context)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.compose.images", description=__doc__)
    parser.add_argument("--repository", default="charonia", help="where the images belong (charonia)")
    parser.add_argument("--tag", default=VERSION, help=f"their tag ({VERSION})")
    options = parser.parse_args()
    try:
        labels = read_labels()
    except LocalError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for service in SERVICES:
        name = f"{options.repository}/{service}:{options.tag}"
        command = ["docker", *build_command(service, name, labels)]
        if code := subprocess.run(command, check=False, timeout=BUILD_SECONDS).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
