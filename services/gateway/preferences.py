"""What a client would like (RFC 7240, `Prefer`): preferences that we don't know, or can't read, are passed over."""

import re

MAX_WAIT = 60
WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*", re.IGNORECASE)


def read_wait(header: str | None) -> int:
    """The seconds of `Prefer: wait=N`, at most MAX_WAIT; 0 where there is none. Of several the first counts."""
    for preference in re.split("[,;]", header or ""):
        if found := WAIT.fullmatch(preference):
            return min(int(found.group(1)), MAX_WAIT)
    return 0
