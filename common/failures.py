"""How often the handler of a message broke. The broker's own count would not do: it counts returns in outages too."""

from collections import OrderedDict

REMEMBERED = 1000  # messages; the one that failed longest ago is forgotten


class Failures:
    def __init__(self) -> None:
        self.counts: OrderedDict[str | None, int] = OrderedDict()

    def add(self, message_id: str | None) -> int:
        """How often it is now, in this process."""
        count = self.counts.pop(message_id, 0) + 1
        self.counts[message_id] = count
        if len(self.counts) > REMEMBERED:
            self.counts.popitem(last=False)
        return count
