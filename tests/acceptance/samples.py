"""Inputs for the models of deploy/models."""

import base64

from deploy.local.settings import ROOT

IMAGE = (ROOT / "deploy" / "local" / "demo.png").read_bytes()
LINES = ["Charonia tritonis", "blows the Triton's trumpet", "when the GPU has answered"]  # what the image says


def picture() -> dict[str, object]:
    return {"image": {"base64": base64.b64encode(IMAGE).decode()}}


def fault(mode: str, value: int | None = None) -> dict[str, object]:
    """What makes the model `faulty` fail in that way."""
    return {"mode": [mode]} | ({} if value is None else {"value": [value]})


def work(ms: int) -> dict[str, object]:
    """What keeps the model `work` busy for so long."""
    return {"ms": [[ms]]}
