"""Wake-ups that are kept instead of published."""

from collections import Counter
from collections.abc import Iterable

from common.job_states import Priority
from common.rabbitmq.messages import JobsQueued
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher

Queue = tuple[str, Priority]


class RecordedWakeUps(WakeUpPublisher):
    """Records what is announced. There is no broker."""

    def __init__(self) -> None:
        super().__init__(Publisher("amqp://127.0.0.1:1/", "tests"))
        self.announced: list[WakeUp] = []
        self.all: list[WakeUp] = []  # those taken too

    def announce(self, wake_ups: Iterable[WakeUp]) -> None:
        new = list(wake_ups)
        self.announced += new
        self.all += new

    def take(self) -> list[WakeUp]:
        """Return what was announced since the last call."""
        taken, self.announced = self.announced, []
        return taken

    def take_jobs(self) -> Counter[Queue]:
        """Return the number of jobs announced for each queue since the last call."""
        return Counter(read_queue(wake_up) for wake_up in self.take() if isinstance(wake_up.message, JobsQueued))


def read_queue(wake_up: WakeUp) -> Queue:
    _, priority, model = wake_up.routing_key.split(".", 2)
    return model, Priority(priority)
