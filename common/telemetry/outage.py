"""Says when an outage begins, so that a loop that runs into it again and again logs it once."""


class Outage:
    """Something that may be away, as one loop sees it."""

    def __init__(self) -> None:
        self._lasts = False

    def begin(self) -> bool:
        """Record a failure. Return whether the outage begins with it."""
        begins, self._lasts = not self._lasts, True
        return begins

    def end(self) -> None:
        """Record a success."""
        self._lasts = False
