"""The outputs of the elements of a step, read a page at a time."""

from collections.abc import Mapping

from common import tensors
from common.jobs.run import Run, read_outputs
from common.postgres.statements import Executor
from common.runs.tensor_files import CannotGoOn
from common.tensors import Tensor

PAGE = 100  # elements: as many as get a job at a time, but for the first ones
PAGE_BYTES = 8 * 1024 * 1024


class StepOutputs:
    """The outputs of one step that has succeeded."""

    def __init__(self, executor: Executor, run: Run, step: str) -> None:
        self.count = run.state[step].total
        self._executor = executor
        self._run = run
        self._step = step
        self._page: Mapping[int, bytes | None] = {}

    async def read(self, element: int, name: str) -> Tensor:
        """Return an output of an element. It is quick in the order of the elements.

        Raises CannotGoOn if it is gone, or if the model did not make it.
        """
        if element not in self._page:
            values = self._run.id, self._step, element
            self._page = await read_outputs(self._executor, *values, count=PAGE, limit=PAGE_BYTES)
        packed = self._page.get(element)
        if packed is None:
            raise CannotGoOn(f"outputs of step '{self._step}' are gone; submit a new job")
        for tensor in tensors.unpack(packed):
            if tensor.name == name:
                return tensor
        text = f"step '{self._step}' made no output '{name}': its model has changed"
        raise CannotGoOn(f"{text}; check the pipeline, and store it again")
