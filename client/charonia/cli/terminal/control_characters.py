"""Shows the characters that a terminal would obey or hide. Pure.

Metadata, texts of models, errors and answers of receivers come from elsewhere. On a terminal, an escape in them could
write to the clipboard, change earlier lines, or turn the order of what follows.
"""

import re

# C0 and C1 with DEL, marks of direction, and separators of lines. A new line and a tab are left to those who print.
_OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
HIDDEN = re.compile(f"(?!\r\n)[{_OBEYED}]")
_HIDDEN_IN_LINE = re.compile(f"[{_OBEYED}\t\n]")


def show_controls(text: str) -> str:
    """Return a text of several lines, with its control characters as Python writes them, such as `\\x1b`."""
    return HIDDEN.sub(_show, text)


def show_line(text: str) -> str:
    """Return a text as one line: new lines and tabs are shown too."""
    return _HIDDEN_IN_LINE.sub(_show, text)


def _show(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]
