"""The command to try first."""

from deploy.local.installation import INSTALLATION, ROOT

IMAGE = "deploy/local/demo.png"


def make_example(url: str, key: str) -> str:
    """Return a command that reads the text in an image with the stack at this URL."""
    program = ".venv/bin/charonia" if INSTALLATION is None else INSTALLATION / "charonia"
    image = IMAGE if INSTALLATION is None else ROOT / IMAGE
    return f"CHARONIA_URL={url} CHARONIA_KEY={key} {program} run ocr image=@{image}"
