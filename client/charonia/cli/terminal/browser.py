"""Opens pages of the console."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from urllib.parse import urlencode

ROOT = "/console"
DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")  # without them, Linux has at most a browser of text


def make_address(url: str, path: str, query: Mapping[str, str | None]) -> str:
    """Return the address of a page. `url` is that of the gateway. Empty values of the query are left out."""
    given = {name: value for name, value in query.items() if value}
    return url.rstrip("/") + ROOT + path + (f"?{urlencode(given)}" if given else "")


def open_browser(address: str) -> bool:
    """Open a page, and return whether that worked. It does not if nobody sees it."""
    if not sys.stderr.isatty() or not has_display():
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False


def has_display() -> bool:
    """Return whether a browser may have a window."""
    return not sys.platform.startswith("linux") or any(map(os.environ.get, DISPLAYS))
