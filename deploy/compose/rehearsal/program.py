"""Docker Compose 2 from Debian trixie's package: Debian 12 has only version 1."""

from pathlib import Path

from deploy.compose.rehearsal.engine import Engine

PLUGIN = "usr/libexec/docker/cli-plugins/docker-compose"
SCRIPT = f"""
cd /tmp
apt-get update -qq
apt-get download -qq docker-compose
dpkg-deb --extract docker-compose_*.deb package
cp package/{PLUGIN} /out/docker-compose.new
mv /out/docker-compose.new /out/docker-compose
"""
SECONDS = 300.0


def ensure_compose(engine: Engine, base: str) -> Path:
    """Return the program; get it in a container of the base image if it is missing. Raise CommandFailed."""
    program = engine.directory / "docker-compose"
    if not program.exists():
        argv = ["run", "--rm", "--network=host", f"--volume={engine.directory}:/out", base, "sh", "-euc", SCRIPT]
        engine.docker(*argv, timeout=SECONDS)
    return program
