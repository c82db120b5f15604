"""Count how often the handler of a message failed. The broker's own count would also include outages."""

from collections import OrderedDict

MAX_MESSAGES = 1000  # beyond that, the message that failed longest ago is forgotten


class FailureCounter:
    """Counts failures by message id, in this process."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str | None, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, message_id: str | None) -> int:
        """Count one failure. Return the message's failures so far."""
        count = self._counts.pop(message_id, 0) + 1
        self._counts[message_id] = count
        if len(self._counts) > MAX_MESSAGES:
            self._counts.popitem(last=False)
        return count
