"""What a client knows of its gateway's address, and what it says while nobody answers there."""

import logging

import httpx

FIRST_SECONDS = 5.0  # for which an address is tried that has never answered: a gateway may be starting

_logger = logging.getLogger("charonia")


class Contact:
    """Whether anybody has ever answered at the address. It tells once that nobody does, until somebody does."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self._has_answered = self._is_away = False

    def note_answer(self) -> None:
        """Note an answer, whatever it says."""
        self._has_answered, self._is_away = True, False

    def limit(self, left: float, spent: float, error: httpx.TransportError) -> float:
        """Return for how long a call may be repeated: an address that never answered is probably wrong.

        `left` is what the call has, and `spent` what it has taken so far, in seconds.
        """
        is_new = isinstance(error, httpx.ConnectError) and not self._has_answered
        return min(left, FIRST_SECONDS - spent) if is_new else left

    def note_retry(self, error: httpx.TransportError) -> None:
        """Warn that nobody answers, and that the call is repeated."""
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)) and not self._is_away:
            self._is_away = True
            reason = str(error) or type(error).__name__
            _logger.warning("cannot connect%s (%s); retrying", describe_address(error), reason)


def describe_address(error: httpx.TransportError) -> str:
    """Return the server that a call was sent to, without a path and a query, which may be secret."""
    try:
        url = error.request.url
    except RuntimeError:  # httpx knows no request
        return ""
    return f" to {url.scheme}://{url.netloc.decode()}"
