"""The models of a server that starts."""

import threading

from deploy.local.servers.model_control import UNKNOWN, IndexEntry, ModelControl


class HangingLoads(ModelControl):
    """A server whose loads do not answer before the test ends."""

    def __init__(self) -> None:
        super().__init__(0, "")
        self.begun, self.ended, self.answered = threading.Event(), threading.Event(), threading.Event()

    def list_models(self) -> list[IndexEntry]:
        return [IndexEntry("slow", "1", UNKNOWN, "")]

    def load(self, model: str, seconds: float = 0.0) -> None:
        self.begun.set()
        self.ended.wait(5.0)
        self.answered.set()


def test_loads_of_a_server_that_has_died_are_not_waited_for() -> None:
    """A Python process that it has just started may keep its connections open."""
    models = HangingLoads()
    models.load_new(lambda: not models.begun.is_set())
    assert not models.answered.is_set()
    models.ended.set()
