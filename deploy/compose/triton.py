"""`python -m deploy.compose.triton` replaces itself with the server, in a container."""

import os
import sys
from pathlib import Path

from deploy.local.servers.triton import Triton

ANY = "0.0.0.0"  # noqa: S104 - a container's own network
KEY = "CHARONIA_TRITON_REPOSITORY_KEY"
LANGUAGE_MODELS = "LANGUAGE_MODELS"  # 1: the image has their packages


def main() -> None:
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    place, venv = Path("/tmp"), Path("/venv")  # noqa: S108 - a tmpfs
    if not (key := os.environ.get(KEY)):
        sys.exit(f"error: {KEY} is not set: set it to the same secret as for the dispatcher")
    language = [Path("/language-models")] if os.environ.get(LANGUAGE_MODELS) == "1" else []
    triton = Triton(
        place,
        Path("/models"),
        8001,
        8000,
        8002,
        venv,
        more_models=[*language, Path("/more-models")],
        otlp_endpoint=endpoint,
        model_control="poll",
        repository_key=key,
        address=ANY,
        flags={"repository-poll-secs": "5"},
    )
    triton.prepare()
    os.execve(triton.argv[0], triton.argv, triton.environment)


if __name__ == "__main__":
    main()
