"""Which calls a model takes. Pure."""

from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.speakers import Speaker


def list_endpoints(speaker: Speaker) -> list[Endpoint]:
    """Return the calls that a model takes, by the names that batches have for them."""
    if speaker.generates is None:
        return [Endpoint.EMBEDDINGS]
    if not speaker.generates.makes_prompts:
        return [Endpoint.CHAT, Endpoint.RESPONSES]
    if speaker.template is None:
        return [Endpoint.COMPLETIONS]
    return [Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.RESPONSES]
