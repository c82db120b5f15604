"""The files that the browser loads. There is no build step: the gateway joins the scripts when it starts."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from console.join import join_modules

FOLDER = Path(__file__).parent
ENTRY = "main.js"
LIBRARY = FOLDER / "vendor" / "preact.js"

TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """A file as the browser gets it."""

    content: bytes
    media_type: str


@cache
def read_assets() -> dict[str, Asset]:
    """Return the assets by name."""
    files: dict[str, bytes] = {"console.js": join_modules(FOLDER / "scripts", ENTRY, LIBRARY).encode()}
    files["console.css"] = "\n".join(path.read_text() for path in sorted((FOLDER / "styles").iterdir())).encode()
    files["icon.svg"] = (FOLDER / "icon.svg").read_bytes()
    return {name: Asset(content, TYPES[Path(name).suffix]) for name, content in files.items()}


@cache
def hash_assets() -> str:
    """Return what the paths of the assets begin with. It changes with them, so browsers may keep them for ever."""
    digest = hashlib.sha256()
    for name, asset in sorted(read_assets().items()):
        digest.update(name.encode() + b"\0" + asset.content)
    return digest.hexdigest()[:16]


@cache
def render_page(prefix: str) -> bytes:
    """Return the page. `prefix` is the path of the assets, without a slash at its end."""
    return (FOLDER / "page.html").read_text().replace("{assets}", prefix).encode()
