"""A publisher without a broker."""

from common.rabbitmq.connection import BrokerConnection
from common.rabbitmq.publisher import Publisher


class FakeConnection(BrokerConnection):
    """A connection that is up until a test says otherwise."""

    is_up = True

    def __init__(self) -> None:
        pass


class FakePublisher(Publisher):
    """A subclass has the methods that publish."""

    connection: FakeConnection

    def __init__(self) -> None:
        self.connection = FakeConnection()
