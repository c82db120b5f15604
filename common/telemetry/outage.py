"""Logs when an outage begins, and not each time that a loop runs into it again."""

from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import Unavailable
from common.telemetry.logs import Log


class Outage:
    """Something that may be away, as one loop sees it."""

    def __init__(self) -> None:
        self._lasts = False

    @contextmanager
    def tolerate(self, event: str, logger: Log, *others: type[Exception]) -> Iterator[None]:
        """Go on after a block that raised Unavailable or one of `others`. Log the first of these errors as `event`."""
        errors: tuple[type[Exception], ...] = (Unavailable, *others)
        try:
            yield
        except errors as error:
            if self.begin():
                logger.warning(event, error=error)
        else:
            self.end()

    def begin(self) -> bool:
        """Record a failure. Return whether the outage begins with it."""
        begins, self._lasts = not self._lasts, True
        return begins

    def end(self) -> None:
        """Record a success."""
        self._lasts = False
