"""Completes arguments in the shell. It asks the gateway, briefly, and says nothing if it does not answer."""

import logging

from charonia import Charonia, CharoniaError
from charonia.cli.terminal.control_characters import show_line

SECONDS = 2.0


def complete_models(incomplete: str) -> list[str]:
    """Return the names of models that begin so."""
    logging.getLogger("charonia").addHandler(logging.NullHandler())
    try:
        with Charonia(timeout=SECONDS) as client:
            names = [each.name for each in client.models.list()]
    except CharoniaError:
        return []
    return [each for each in names if each.startswith(incomplete) and show_line(each) == each]
