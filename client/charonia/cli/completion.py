"""Completes arguments in the shell. It asks the gateway, briefly, and says nothing if it does not answer."""

import logging
from collections.abc import Callable, Iterable

from charonia import Charonia, CharoniaError
from charonia.cli.terminal.control_characters import show_line

SECONDS = 2.0


def complete_models(incomplete: str) -> list[str]:
    """Return the names of models and pipelines that begin so."""
    return complete_names(incomplete, lambda client: (each.name for each in client.models.list()))


def complete_pipelines(incomplete: str) -> list[str]:
    """Return the names of pipelines that begin so."""
    return complete_names(incomplete, lambda client: (each.name for each in client.pipelines.list()))


def complete_names(incomplete: str, read: Callable[[Charonia], Iterable[str]]) -> list[str]:
    """Return the names that begin so."""
    logging.getLogger("charonia").addHandler(logging.NullHandler())
    try:
        with Charonia(timeout=SECONDS) as client:
            names = list(read(client))
    except CharoniaError:
        return []
    return [each for each in names if each.startswith(incomplete) and show_line(each) == each]
