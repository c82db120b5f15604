"""The slot of a running job."""

from common.job_states import Priority
from services.dispatcher import metrics
from services.dispatcher.models.served_model import ServedModel


class Slot:
    """A slot of a model, and whether its job is a probe of the breaker. It may be given back and acquired again."""

    def __init__(self, model: ServedModel, *, is_probe: bool) -> None:
        """The slot was acquired just now."""
        self._model = model
        self._used = metrics.slots_used.labels(model.name)
        self._is_saving = False  # it was released before the result is saved
        self._take(is_probe)

    def _take(self, is_probe: bool) -> None:
        self._is_held, self._is_probe = True, is_probe
        self._used.inc()

    async def acquire(self, priority: Priority) -> None:
        self._take(await self._model.acquire(priority))

    def give_back(self) -> None:
        """Give it back before the inference. So the model was not asked."""
        self._model.release(probe=self._is_probe)
        self._is_held = self._is_probe = False
        self._used.dec()

    def release_before_save(self) -> None:
        """Free it, if the model's limit allows it: the result or the last responses are being saved."""
        if self._is_held and self._model.concurrency.release_before_save():
            self._is_held, self._is_saving = False, True
            self._used.dec()

    def close(self) -> None:
        """Free what is left when the job no longer runs."""
        if self._is_probe:
            self._model.breaker.end_probe()
        if self._is_held:
            self._model.concurrency.release()
            self._used.dec()
        if self._is_saving:
            self._model.concurrency.note_saved()
