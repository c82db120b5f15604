"""Wake-ups that are kept instead of published."""

from collections import defaultdict
from collections.abc import Iterable

from common.job_states import Priority
from common.rabbitmq.messages import JobsQueued, QueuedJob
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

    def take_jobs(self) -> dict[Queue, list[QueuedJob]]:
        """Return the jobs announced for each queue since the last call."""
        return read_jobs(self.take())


def read_jobs(wake_ups: Iterable[WakeUp]) -> dict[Queue, list[QueuedJob]]:
    """Return the announced jobs of each queue."""
    found = defaultdict[Queue, list[QueuedJob]](list)
    for wake_up in wake_ups:
        if isinstance(wake_up.message, JobsQueued):
            _, priority, model = wake_up.routing_key.split(".", 2)
            found[model, Priority(priority)] += wake_up.message.jobs
    return found
