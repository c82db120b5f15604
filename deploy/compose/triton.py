"""`python -m deploy.compose.triton` replaces itself with the server, in a container."""

import os
from pathlib import Path

from deploy.local.servers.triton import Triton

ANY = "0.0.0.0"  # noqa: S104 - a container's own network


def main() -> None:
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    place, models, venv = Path("/tmp"), Path("/models"), Path("/venv")  # noqa: S108 - a tmpfs
    triton = Triton(place, models, 8001, 8000, 8002, venv, otlp_endpoint=endpoint, address=ANY)
    triton.prepare()
    os.execve(triton.argv[0], triton.argv, triton.environment)  # noqa: S606 - without a shell, as intended


if __name__ == "__main__":
    main()
