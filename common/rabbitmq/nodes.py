"""The nodes of a RabbitMQ cluster, in the order in which a process tries them."""

import random
from collections.abc import Callable

from common.server_urls import split_by_node


def _shuffle(names: list[str]) -> None:
    random.shuffle(names)  # so that processes spread over the nodes


class Nodes:
    """A node that fails goes to the end."""

    def __init__(self, url: str, shuffle: Callable[[list[str]], None] = _shuffle) -> None:
        self._urls = split_by_node(url)
        self._order = list(self._urls)
        self._failures = 0  # in a row
        shuffle(self._order)

    @property
    def name(self) -> str:
        """The node to try next, or the one in use: `host:port`."""
        return self._order[0]

    @property
    def url(self) -> str:
        """The URL of that node alone."""
        return self._urls[self.name]

    @property
    def has_others(self) -> bool:
        """Whether another node may answer when this one does not."""
        return len(self._order) > 1

    @property
    def has_untried(self) -> bool:
        """Whether a node after this one has not failed since the last success."""
        return self._failures + 1 < len(self._order)

    def fail(self) -> None:
        """Move the node to the end."""
        self._failures += 1
        self._order.append(self._order.pop(0))

    def succeed(self) -> None:
        """Note that the node works."""
        self._failures = 0
