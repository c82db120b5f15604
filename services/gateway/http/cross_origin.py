"""CORS: which origins' pages may call the API from a browser. Other clients do not care."""

import re
from collections.abc import Sequence

from litestar.config.cors import CORSConfig

from common.errors import SettingsError

# As browsers send it: the host in lower case and in ASCII, and no port that is the scheme's own.
ORIGIN = re.compile(
    r"(?!http://.*:80$|https://.*:443$)[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[1-9]\d{0,4})?"
)
PREFLIGHT_SECONDS = 7200  # for which a browser remembers that it may call a path: the most that Chromium takes
FORM = (
    "Expected a scheme, a host in lower case, and a port unless it is the scheme's own, such as "
    "https://app.example.com or http://localhost:5173, with commas between origins."
)
ANY = "Name each origin: with * every page that somebody visits could call this gateway from their network."


def allow_origins(origins: Sequence[str]) -> CORSConfig | None:
    """Return the rules for these origins, or None if there are none. Raise SettingsError for a wrong one.

    A page sends its key itself and no cookies. So an allowed page may send and read every header.
    """
    for origin in origins:
        if not ORIGIN.fullmatch(origin):
            reason = ANY if "*" in origin else FORM
            raise SettingsError(f"CHARONIA_CORS_ORIGINS is wrong: {origin!r} is not an origin. {reason}")
    if not origins:
        return None
    return CORSConfig(allow_origins=[*origins], expose_headers=["*"], max_age=PREFLIGHT_SECONDS)
