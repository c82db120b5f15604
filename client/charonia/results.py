"""The outputs of a job, as Python values, NumPy arrays or files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charonia.contents import decode_elements, get_content
from charonia.errors import CharoniaError, InvalidRequest, NotFound, make_job_error
from charonia.schemas import BatchLine, ItemProblem, JobData, Output

if TYPE_CHECKING:
    from charonia.arrays import Array


class OutputFile:
    """An output of one BYTES element, such as an image."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        """Return the content."""
        return self._content

    def save(self, path: str | Path) -> Path:
        """Write the content to a file, and return its path."""
        target = Path(path)
        target.write_bytes(self._content)
        return target


class Outputs(Mapping[str, Any]):
    """Outputs by name. A value is a nested list in the shape of the tensor; BYTES are str, or bytes if not UTF-8.

    The responses of a streaming model are joined along their first dimension. Large outputs are in files, or
    at a location of yours: see `Output`.
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.tensors: list[Output] = list(outputs)

    def __getitem__(self, name: str) -> Any:
        found = [_nest(decode_elements(each), each.shape) for each in self._find(name)]
        if len(found) == 1:
            return found[0]
        return [item for each in found for item in (each if isinstance(each, list) else [each])]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(each.name for each in self.tensors))

    def __len__(self) -> int:
        return len({each.name for each in self.tensors})

    def __repr__(self) -> str:
        shown = ", ".join(f"{each.name}: {each.datatype} {each.shape}" for each in self.tensors[:10])
        return f"<{type(self).__name__} {shown}>"

    @property
    def text(self) -> str:
        """All elements of all BYTES outputs as one text."""
        found = (element for each in self.tensors if each.datatype == "BYTES" for element in decode_elements(each))
        return "".join(each if isinstance(each, str) else each.decode(errors="replace") for each in found)

    def numpy(self, name: str) -> "Array":
        """Return an output as an array of NumPy. Raise ImportError without it."""
        from charonia import arrays  # here, because it imports NumPy

        return arrays.join([_make_array(each) for each in self._find(name)])

    def file(self, name: str) -> OutputFile:
        """Return an output of one BYTES element as a file. Raise ValueError for any other."""
        elements = [
            element for each in self._find(name) if each.datatype == "BYTES" for element in decode_elements(each)
        ]
        if len(elements) != 1:
            raise ValueError(
                f"output {name!r} is not one BYTES element, but {self._find(name)[0].shape}; use [{name!r}]"
            )
        (content,) = elements
        return OutputFile(content.encode() if isinstance(content, str) else content)

    def _find(self, name: str) -> list[Output]:
        if found := [each for each in self.tensors if each.name == name]:
            return found
        raise KeyError(f"no output {name!r}; there are {', '.join(map(repr, self)) or 'none'}")


class Result(Outputs):
    """The outputs of a succeeded job, and the job."""

    def __init__(self, job: JobData, outputs: Sequence[Output]) -> None:
        super().__init__(outputs)
        self.job = job


class Part(Outputs):
    """One response of a streaming model.

    `index` counts from 0. If an attempt fails, the next one begins again at 0, with a greater `attempt`.
    """

    def __init__(self, outputs: Sequence[Output], index: int, attempt: int) -> None:
        super().__init__(outputs)
        self.index = index
        self.attempt = attempt


class Done:
    """One item of a `map`, with its job. `error` is why it has no result. `done[name]` is an output of `result`."""

    def __init__(self, index: int, item: Any, job: JobData | None, error: CharoniaError | None) -> None:
        self.index = index
        self.item = item
        self.job = job
        self.error = error

    def __repr__(self) -> str:
        return f"<Done {self.index} {self.error or 'succeeded'}>"

    def __getitem__(self, name: str) -> Any:
        return self.result[name]

    @property
    def text(self) -> str:
        """All text of the outputs. Raises `error` if there is one."""
        return self.result.text

    @property
    def result(self) -> Result:
        """The outputs. Raises `error` if there is one."""
        if self.error is not None:
            raise self.error
        assert self.job is not None
        return Result(self.job, self.job.outputs or [])


def make_done(index: int, item: Any, line: BatchLine) -> Done | None:
    """Return an item that has ended, from its line in the results of a batch; None if it has not."""
    job = line.job
    if job is None:
        problem = line.error or ItemProblem("", "the gateway gives no reason")
        code = problem.type.rpartition(":")[2]
        kind, status = (NotFound, 404) if code.endswith("not_found") else (InvalidRequest, 422)
        return Done(index, item, None, kind(status, code, problem.detail, problem.errors))
    if not job.has_ended:
        return None
    return Done(index, item, job, None if job.status == "succeeded" else make_job_error(job))


def _make_array(output: Output) -> "Array":
    from charonia import arrays

    if not output.has_data and output.datatype != "BYTES":
        return arrays.read_array(get_content(output), output.datatype, output.shape)
    return arrays.make_array(decode_elements(output), output.datatype, output.shape)


def _nest(flat: list[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return flat
    step = len(flat) // shape[0] if shape[0] else 0
    return [_nest(flat[index * step : (index + 1) * step], shape[1:]) for index in range(shape[0])]
