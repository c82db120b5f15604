"""Checks Triton's raw output tensors, and renders them: small ones as JSON, others as files."""

import math
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from common import ids
from common.locations.location import Location
from common.locations.outputs import locate_output
from common.tensors import Datatype, FileContent, Signature, Tensor
from common.views.outputs import BadOutput, Output, OutputTensor, render_output, write_content

TOGETHER = 4
PART = 8


class TooLarge(Exception):
    """A model's outputs are over the limit as JSON."""


class OutputFile(msgspec.Struct):
    """An output that is no JSON: a file, or with a `location` an object of the client's own.

    `data` is empty once the object store has it.
    """

    id: UUID
    size: int
    sha256: bytes
    data: memoryview
    location: Location | None = None
    is_stored: bool = False


class Rendered(NamedTuple):
    """Outputs as the JSON list of the API, the files that it names, and where the outputs are, as tensors."""

    json: bytes
    files: Sequence[OutputFile] = ()
    tensors: Sequence[Tensor] = ()


class InlineLimit:
    """Decides which tensors of one attempt become files: those over `limit` bytes.

    Once the others are TOGETHER times as large, those over a PART of the limit too: a job's row stays small, and no
    small responses of a stream become files. With a `folder` of the client's own, all go there.
    """

    def __init__(self, limit: int, folder: Location | None = None) -> None:
        self._limit = limit
        self.folder = folder
        self._used = 0

    def takes(self, size: int) -> bool:
        """Return whether a tensor of `size` bytes stays inline, and count it."""
        if self.folder is not None:
            return False
        if size > self._limit or (size > self._limit // PART and self._used + size > TOGETHER * self._limit):
            return False
        self._used += size
        return True


def complete_shapes(tensors: Sequence[OutputTensor], declared: Sequence[Signature]) -> list[OutputTensor]:
    """Return the tensors with the dimensions of 1 that their shapes lack at the end, to have as many as declared.

    Triton passes on what a model returns. Its vLLM backend returns `num_input_tokens` without a dimension, and that of
    TensorRT-LLM `text_output` without the second of two: see tests/support/models/README.md.
    """
    dimensions = {signature.name: len(signature.shape) for signature in declared}
    completed = []
    for tensor in tensors:
        missing = dimensions.get(tensor.name, 0) - len(tensor.shape)
        completed.append(tensor._replace(shape=[*tensor.shape, *[1] * missing]) if missing > 0 else tensor)
    return completed


def check_outputs(tensors: Sequence[OutputTensor], declared: Sequence[Signature], *, complete: bool) -> None:
    """Raise BadOutput unless each tensor matches its declaration. With `complete`, no output may be missing.

    Triton checks neither.
    """
    by_name = {signature.name: signature for signature in declared}
    for tensor in tensors:
        signature = by_name.get(tensor.name)
        if signature is None:
            raise BadOutput(f"the model returned output '{tensor.name}', which it does not declare")
        if tensor.datatype != signature.datatype:
            raise BadOutput(f"output '{tensor.name}' is {tensor.datatype}, but is declared as {signature.datatype}")
        fits = len(tensor.shape) == len(signature.shape) and all(
            wanted in (-1, size) for size, wanted in zip(tensor.shape, signature.shape, strict=True)
        )
        if not fits:
            raise BadOutput(f"output '{tensor.name}' has shape {tensor.shape}, but is declared as {signature.shape}")
    if complete and (missing := by_name.keys() - {tensor.name for tensor in tensors}):
        raise BadOutput(f"the model did not return its output '{min(missing)}'")


def render_outputs(
    tensors: Sequence[OutputTensor], response: int, limit: int, inline: InlineLimit, pause: Callable[[], None]
) -> Rendered:
    """Render tensors. Call `pause` now and then, so that other threads can run.

    Raises TooLarge beyond `limit` bytes of JSON, before it needs more memory than that. Raises BadOutput if a tensor
    does not have as much data as its shape needs.
    """
    found, files, size = [b"["], list[OutputFile](), 1 + len(tensors)  # of brackets and commas
    raw: list[Tensor] = []
    for number, tensor in enumerate(tensors):
        if inline.takes(len(tensor.data)):
            pieces = render_output(tensor, response)
            raw.append(Tensor(tensor.name, tensor.datatype, tensor.shape, bytes(tensor.data)))
        else:
            files.append(make_file(tensor, pause))
            if inline.folder is not None:
                files[-1].location = locate_output(inline.folder, tensor.name, response)
            pieces = iter([describe_file(tensor, files[-1], response)])
            raw.append(refer_to(tensor, files[-1]))
        for piece in pieces:
            size += len(piece)
            if size > limit:
                raise TooLarge
            found.append(piece)
            pause()
        found.append(b"]" if number == len(tensors) - 1 else b",")
    return Rendered(b"".join(found) if tensors else b"[]", files, raw)


def make_file(tensor: OutputTensor, pause: Callable[[], None]) -> OutputFile:
    content = write_content(tensor, pause)
    return OutputFile(ids.new(), len(content), sha256(content).digest(), content)  # other threads run meanwhile


def refer_to(tensor: OutputTensor, file: OutputFile) -> Tensor:
    """Return a tensor whose content is in a file. `write_content` says how several elements of BYTES are in it."""
    several = tensor.datatype is Datatype.BYTES and math.prod(tensor.shape) != 1
    return Tensor(tensor.name, tensor.datatype, tensor.shape, FileContent(file.id, 0, file.size, inline=several))


def describe_file(tensor: OutputTensor, file: OutputFile, response: int) -> bytes:
    """Return the JSON of an output in a file or at a location. Whoever shows a file adds the `url`."""
    is_own = file.location is None
    output = Output(
        tensor.name,
        tensor.datatype,
        tensor.shape,
        file=ids.encode(ids.Kind.FILE, file.id) if is_own else UNSET,
        location=UNSET if is_own else str(file.location),
        size=file.size,
        sha256=file.sha256.hex(),
        response=response,
    )
    return msgspec.json.encode(output)
