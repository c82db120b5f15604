"""`python -m deploy.compose.rehearsal.newest` runs unit and integration tests on newer versions.

It tests the last commit in a container of Debian trixie, with PostgreSQL 17, RabbitMQ 4.0 and Python 3.13. It leaves
out tests that need Triton, whose wheel does not support Python 3.13. It needs root.
"""

import subprocess
import sys

from deploy.compose.rehearsal.__main__ import PLACE
from deploy.compose.rehearsal.bases import ensure_base
from deploy.compose.rehearsal.engine import Engine, ensure_programs
from deploy.local.errors import LocalError
from deploy.local.settings import ROOT
from deploy.local.terminal import say

IMAGE = "charonia-rehearsal/newest"
NOT_HERE = ("tests/*/deploy", "tests/*/console")  # they need Debian 12, Docker, Helm or Chromium
SIDE_BY_SIDE = ("-n 4", "--dist loadfile", "--no-loadscope-reorder")  # as `make test`
MEMORY = "6g"  # shared memory, which holds the tests' databases
SECONDS = 1800.0


def build(engine: Engine) -> None:
    """Build the image; its only input is the lock file."""
    place = engine.directory / "newest"
    place.mkdir(exist_ok=True)
    (place / "requirements.txt").write_bytes((ROOT / "requirements.txt").read_bytes())
    file = ROOT / "deploy" / "compose" / "rehearsal" / "newest.Dockerfile"
    base = f"BASE={ensure_base(engine, 'trixie')}"
    engine.docker(
        "build",
        "--network=host",
        "--quiet",
        "-t",
        IMAGE,
        "-f",
        str(file),
        "--build-arg",
        base,
        str(place),
        timeout=SECONDS,
    )


def main() -> int:
    ignored = [f"--ignore-glob='{name}'" for name in NOT_HERE]
    tests = " ".join(
        ["/venv/bin/python -m pytest -q", *SIDE_BY_SIDE, "-m 'not triton' tests/unit tests/integration", *ignored]
    )
    archive = "git -c safe.directory=/src -C /src archive HEAD"
    copy = f"mkdir /work && {archive} | tar -x -C /work && cd /work && ln -s /venv .venv"
    versions = "/venv/bin/python --version; psql --version; dpkg-query --show rabbitmq-server"
    try:
        ensure_programs()
        with Engine(PLACE) as engine:
            say("Building the image from Debian packages …")
            build(engine)
            argv = [
                "docker",
                "run",
                "--rm",
                "--network=none",
                "--shm-size",
                MEMORY,
                "-v",
                f"{ROOT}:/src:ro",
                IMAGE,
                "sh",
                "-c",
            ]
            return subprocess.run(
                [*argv, f"{versions}; {copy} && {tests}"], env=engine.env, timeout=SECONDS, check=False
            ).returncode
    except (LocalError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
