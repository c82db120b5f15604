"""Completes arguments in the shell. It asks the gateway, briefly, and says nothing if it does not answer."""

from charonia import Charonia, CharoniaError

SECONDS = 2.0


def complete_models(incomplete: str) -> list[str]:
    """Return the names of models that begin so."""
    try:
        with Charonia(timeout=SECONDS) as client:
            return [each.name for each in client.models.list() if each.name.startswith(incomplete)]
    except CharoniaError:
        return []
