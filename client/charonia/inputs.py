"""Turns Python values into the inputs of a job, as the model's signature says. It reports every mistake at once."""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from charonia.errors import InvalidInput
from charonia.model_schemas import (
    ModelInfo,
    TensorInfo,
)
from charonia.references import FileId, Url
from charonia.schemas import FieldProblem, FileData
from charonia.tensors import (
    MAX_RANK,
    SIZES,
    FileReference,
    Mistake,
    Raw,
    Tensor,
    UrlReference,
    check_depth,
    describe,
    encode_elements,
    flatten,
)

MAX_BODY = 16 * 1024 * 1024  # what a gateway accepts by default (CHARONIA_MAX_BODY_BYTES)

Inputs = Mapping[str, Any]


class EncodedItem(msgspec.Struct, frozen=True):
    """An item of a batch as it is sent: a line of JSON."""

    line: bytes


def has_files(value: Any, depth: int = 0) -> bool:
    """Return whether a value is a path or a file, or has one in its lists. To read it takes time."""
    if isinstance(value, (list, tuple)):
        return depth < MAX_RANK and any(has_files(each, depth + 1) for each in value)
    return isinstance(value, Path) or hasattr(value, "read")


def read_files(inputs: Inputs, limit: int) -> dict[str, Any]:
    """Return the inputs with the contents of paths and files. Raise InvalidInput for one that cannot be read."""
    found: dict[str, Any] = {}
    errors = []
    for name, value in inputs.items():
        try:
            found[name] = _read(value, limit * 3 // 4)  # base64 takes 4 bytes for 3
        except (Mistake, OSError, ValueError) as error:  # noqa: PERF203 -- each mistake is reported
            errors.append(FieldProblem(_point(name), str(error)))
    if errors:
        raise InvalidInput(errors)
    return found


def _read(value: Any, limit: int, depth: int = 0) -> Any:
    if isinstance(value, (list, tuple)):
        check_depth(depth)
        return [_read(each, limit, depth + 1) for each in value]
    if getattr(value, "closed", False) is True:
        raise Mistake("the file is closed; open it again, or pass its path")
    if isinstance(value, Path):
        if value.stat().st_size > limit:
            raise Mistake(_explain_size(str(value), value.stat().st_size, limit))
        return value.read_bytes()
    if hasattr(value, "read"):
        content = value.read(limit + 1)
        if len(content) > limit:
            raise Mistake(_explain_size("the file", None, limit))
        return content
    return value


def _explain_size(what: str, size: int | None, limit: int) -> str:
    shown = "too large" if size is None else f"{size / 2**20:.1f} MiB"
    return f"{what} is {shown}; at most {limit / 2**20:.1f} MiB can be sent in a request. Make it smaller, or raise \
CHARONIA_MAX_BODY_BYTES at the gateway and max_body here"


def encode_inputs(model: ModelInfo, inputs: Inputs) -> list[Tensor]:
    """Return the tensors of a job. Raise InvalidInput with every mistake."""
    declared = {each.name: each for each in model.inputs}
    tensors, errors = [], []
    for name, value in inputs.items():
        try:
            if name not in declared:
                raise Mistake(_explain_unknown(name, model.inputs))
            tensors.append(encode_input(value, declared[name], batched=bool(model.max_batch_size)))
        except Mistake as error:  # noqa: PERF203 -- each mistake is reported
            errors.append(FieldProblem(_point(name), str(error)))
    errors += [
        FieldProblem("/inputs", f"input {each.name!r} ({show(each)}) is missing")
        for each in model.inputs
        if not each.optional and each.name not in inputs
    ]
    if not errors and model.max_batch_size:
        errors = _check_batch(tensors, model.max_batch_size)
    if errors:
        raise InvalidInput(errors)
    return tensors


def _check_batch(tensors: Sequence[Tensor], most: int) -> list[FieldProblem]:
    sizes = {each.shape[0] for each in tensors}
    if len(sizes) > 1:
        return [FieldProblem("/inputs", f"the batch, the first dimension, differs between inputs: {sorted(sizes)}")]
    if sizes and not 1 <= min(sizes) <= most:
        return [FieldProblem("/inputs", f"the batch has {min(sizes)} items; the model accepts 1 to {most}")]
    return []


def encode_input(value: Any, wanted: TensorInfo, *, batched: bool) -> Tensor:
    """Return a value as the tensor that the model wants. Raise Mistake."""
    if isinstance(value, (FileId, Url)):
        value = {"url" if isinstance(value, Url) else "file": str(value)}
    if isinstance(value, FileData):
        is_bytes = wanted.datatype == "BYTES"
        shape = fit_shape([], wanted, batched=batched) if is_bytes else infer_shape(value.size, wanted, batched=batched)
        return Tensor(wanted.name, shape, wanted.datatype, FileReference(value.id))
    if wanted.reference:
        text = (
            f"is {describe(value)}, but the model reads a file here itself; pass a path, or what files.upload returned"
        )
        raise Mistake(text)
    if is_array(value):
        from charonia.arrays import encode_array, to_array  # here, because it imports NumPy

        found = to_array(value)
        shape = fit_shape(list(found.shape), wanted, batched=batched)
        return Tensor(wanted.name, shape, wanted.datatype, encode_array(found, wanted.datatype))
    if isinstance(value, (bytes, bytearray, memoryview)) and wanted.datatype != "BYTES":
        shape = infer_shape(len(value), wanted, batched=batched)
        return Tensor(wanted.name, shape, wanted.datatype, Raw(bytes(value)))
    if isinstance(value, Mapping) and ("url" in value or "file" in value):
        return encode_reference(value, wanted, batched=batched)
    if isinstance(value, Mapping) or value is None:
        raise Mistake(f"is {describe(value)}; pass str, bytes, a path, numbers, lists or an array")
    shape, flat = flatten(value)
    shape = fit_shape(shape, wanted, batched=batched)
    return Tensor(wanted.name, shape, wanted.datatype, encode_elements(_to_python(flat), wanted.datatype))


def list_references(model: ModelInfo) -> list[str]:
    """Return the names of the inputs that the model reads itself, as files."""
    return [each.name for each in model.inputs if each.reference]


def check_sizes(model: ModelInfo, sizes: Mapping[str, int | None]) -> None:
    """Raise InvalidInput for each input whose file has more bytes than the model takes. None is not known."""
    most = {each.name: each.max_bytes for each in model.inputs}
    errors = [
        FieldProblem(
            _point(name),
            f"the file has {size} bytes; this input takes {limit} at most. Make it smaller, or ask \
your operator to raise CHARONIA_MAX_TENSOR_BYTES",
        )
        for name, size in sizes.items()
        if size is not None and (limit := most.get(name)) is not None and size > limit
    ]
    if errors:
        raise InvalidInput(errors)


def encode_reference(value: Mapping[str, Any], wanted: TensorInfo, *, batched: bool) -> Tensor:
    """Return a URL or a file as the tensor that the model wants. The gateway checks it. Raise Mistake."""
    kind = "url" if "url" in value else "file"
    if extra := value.keys() - {kind, "shape", "datatype"}:
        raise Mistake(f"has the unknown key {min(extra, key=str)!r}; beside a {kind} may be shape and datatype")
    if value.get("datatype") not in (None, wanted.datatype):
        raise Mistake(f"has the datatype {value['datatype']!r}, but the model wants {wanted.datatype}")
    found = value.get("shape", [] if wanted.datatype == "BYTES" else None)
    if not isinstance(found, (list, tuple)):
        raise Mistake(f"is a {kind}, whose shape nobody knows; give it too: {{'{kind}': …, 'shape': {wanted.shape}}}")
    shape = fit_shape(list(found), wanted, batched=batched)
    place = UrlReference(value["url"]) if kind == "url" else FileReference(value["file"])
    return Tensor(wanted.name, shape, wanted.datatype, place)


def find_only_input(model: ModelInfo) -> str:
    """Return the name of the input that a single value is for. Raise InvalidInput if there is not exactly one."""
    names = [each.name for each in model.inputs if not each.optional] or [each.name for each in model.inputs]
    if len(names) != 1:
        text = f"the model has the inputs {', '.join(map(repr, names))}; pass a dictionary with them as the item"
        raise InvalidInput([FieldProblem("/inputs", text)])
    return names[0]


def encode_unchecked(inputs: Inputs) -> dict[str, Any]:
    """Return the inputs for a model whose signature the key may not read. The gateway checks them."""
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        try:
            found[name] = _to_json(value)
        except Mistake as error:  # noqa: PERF203 -- it names the input
            raise InvalidInput([FieldProblem(_point(name), str(error))]) from None
    return found


def _to_json(value: Any, depth: int = 0) -> Any:
    if isinstance(value, (list, tuple)):
        check_depth(depth)
        return [_to_json(each, depth + 1) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Raw(bytes(value))
    if is_array(value):
        from charonia.arrays import to_array

        return _to_json(to_array(value).tolist())
    if isinstance(value, FileData):
        return FileReference(value.id)
    if isinstance(value, (FileId, Url)):
        return UrlReference(str(value)) if isinstance(value, Url) else FileReference(str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def _to_python(flat: list[Any]) -> list[Any]:
    """Return elements with NumPy's scalars as Python's own."""
    if (numpy := sys.modules.get("numpy")) is None:
        return flat
    return [each.item() if isinstance(each, numpy.generic) else each for each in flat]


def is_array(value: Any) -> bool:
    return hasattr(type(value), "__array__") or hasattr(type(value), "__array_interface__")


def fit_shape(shape: list[int], wanted: TensorInfo, *, batched: bool) -> list[int]:
    """Return the shape as the model wants it: one value is a tensor of one element, one item a batch of one."""
    for candidate in (shape, [1, *shape] if batched else shape, [] if shape else [1] * len(wanted.shape)):
        if len(candidate) == len(wanted.shape) and all(
            size in (-1, found)
            for found, size in zip(candidate, wanted.shape)  # noqa: B905 -- the lengths are equal
        ):
            return candidate
    any_size = " (-1 is any size)" if -1 in wanted.shape else ""
    raise Mistake(f"has the shape {shape}, but the model wants {wanted.shape}{any_size}")


def infer_shape(size: int, wanted: TensorInfo, *, batched: bool) -> list[int]:
    """Return the shape of raw bytes, if at most one dimension is variable (beside a batch of one)."""
    shape = wanted.shape
    if batched and shape.count(-1) > 1:
        shape = [1, *shape[1:]]
    if shape.count(-1) > 1:
        raise Mistake(f"bytes for the shape {wanted.shape} are ambiguous; pass a NumPy array, which has a shape")
    known = math.prod(each for each in shape if each != -1) * SIZES[wanted.datatype]
    if known == 0 or size % known or (-1 not in shape and size != known):
        raise Mistake(f"{size} bytes do not fit {show(wanted)}")
    return [size // known if each == -1 else each for each in shape]


def show(wanted: TensorInfo) -> str:
    return f"{wanted.datatype} {wanted.shape}"


def _explain_unknown(name: str, inputs: Sequence[TensorInfo]) -> str:
    import difflib  # here, because few need it

    names = [each.name for each in inputs]
    close = difflib.get_close_matches(str(name), names, 1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(map(repr, names)) or 'none'}"
    return f"the model has no input {name!r}{hint}"


def _point(name: str) -> str:
    return "/inputs/" + str(name).replace("~", "~0").replace("/", "~1")


def encode_body(body: Any, limit: int) -> bytes:
    """Return a request as JSON. Raise InvalidInput if it is too large or has no JSON form."""
    try:
        found = msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput([FieldProblem("", f"cannot be written as JSON: {error}")]) from error
    if len(found) > limit:
        raise InvalidInput([FieldProblem("/inputs", _explain_size("the request", len(found), limit))])
    return found
