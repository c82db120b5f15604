"""Inputs for the models in deploy/models."""

import base64
from collections.abc import Sequence

from deploy.local.settings import ROOT

IMAGE = (ROOT / "deploy" / "local" / "demo.png").read_bytes()
LINES = ["Charonia tritonis", "blows the Triton's trumpet", "when the GPU has answered"]  # the text in the image


def picture() -> dict[str, object]:
    return {"image": {"base64": base64.b64encode(IMAGE).decode()}}


def fault(mode: str, value: int | None = None) -> dict[str, object]:
    """Return inputs that make the model `faulty` fail in this way."""
    return {"mode": [mode]} | ({} if value is None else {"value": [value]})


def work(ms: int) -> dict[str, object]:
    """Return inputs that keep the model `work` busy for `ms` milliseconds."""
    return {"ms": [[ms]]}


def tokens(words: Sequence[str], delay_ms: int = 0) -> dict[str, object]:
    """Return inputs that make the model `tokens` send one response per word, with this delay before each."""
    return {"text": [" ".join(words)], "delay_ms": [delay_ms]}
