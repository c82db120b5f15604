"""OpenAI's rate-limit headers, beside those of the draft, on every answer of its API to a key with a limit."""

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.auth.rate_limits import PERMIT, Permit
from services.gateway.openai.problems import PREFIX


def list_headers(permit: Permit) -> dict[str, str]:
    """Return the headers, as platform.openai.com/docs/guides/rate-limits describes them."""
    return {
        "x-ratelimit-limit-requests": str(permit.limit),
        "x-ratelimit-remaining-requests": str(permit.remaining),
        "x-ratelimit-reset-requests": f"{permit.full_in:.3f}s",
    }


class OpenAIHeadersMiddleware:
    """Adds the headers to answers, errors too: so it stands around the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            permit: Permit | None = scope.get(PERMIT)  # type: ignore[assignment]
            if permit is not None and message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in list_headers(permit).items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        is_ours = scope["type"] == ScopeType.HTTP and scope["path"].startswith(PREFIX)
        await self._app(scope, receive, add_headers if is_ours else send)
