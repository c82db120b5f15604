"""NumPy arrays as tensors, and back. Imported only when an array is sent, or `numpy` is called on a result."""

from typing import Any

from charonia.contents import widen
from charonia.tensors import FLOATS, Mistake, Raw, encode_elements, round_to_bf16

try:
    import numpy as np
except ImportError as error:
    raise ImportError("NumPy is not installed; run: pip install numpy") from error

Array = np.ndarray[Any, Any]
DTYPES = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}


def to_array(value: Any) -> Array:
    """Return anything that NumPy takes for an array, such as a tensor of PyTorch. Raise Mistake if it does not."""
    if isinstance(value, np.ma.MaskedArray):
        raise Mistake("is a masked array, and a tensor has no mask; fill it with filled(value), or pass its data")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # such as a tensor on a GPU
        raise Mistake(f"is {type(value).__name__}, which NumPy does not take for an array: {error}") from error


def encode_array(value: Array, datatype: str) -> Raw | list[str | Raw]:
    """Return an array as the data of a tensor. Its values are converted where that loses no more than precision."""
    kind = "f" if value.dtype.name == "bfloat16" else value.dtype.kind
    if datatype == "BYTES" and kind in "OSU":
        return encode_elements(value.ravel().tolist(), datatype)
    allowed = "b" if datatype == "BOOL" else "iuf" if datatype in FLOATS else "iu"
    if kind not in allowed or datatype == "BYTES":
        raise Mistake(f"the array has the dtype {value.dtype}, but the model wants {datatype}; convert it with astype")
    if value.dtype.name == "bfloat16" and datatype == "BF16":
        return Raw(np.ascontiguousarray(value).tobytes())
    return Raw(_convert(value, datatype))


def _convert(value: Array, datatype: str) -> bytes:
    try:
        if datatype in FLOATS:
            return _convert_floats(value, datatype)
        target = np.dtype(DTYPES[datatype])
        if value.size and datatype != "BOOL":
            limits = np.iinfo(target)
            if int(value.min()) < limits.min or int(value.max()) > limits.max:
                raise OverflowError
        return np.ascontiguousarray(value, dtype=target).tobytes()
    except OverflowError:
        raise Mistake(f"a value is out of the range of {datatype}") from None


def _convert_floats(value: Array, datatype: str) -> bytes:
    with np.errstate(over="ignore"):
        found = np.asarray(value, dtype=DTYPES["FP32" if datatype == "BF16" else datatype])
    if value.dtype.itemsize > found.dtype.itemsize or value.dtype.kind in "iu":
        infinite = np.isinf(found)
        if np.isfinite(value[infinite]).any():
            raise OverflowError
    return round_to_bf16(found.tobytes()) if datatype == "BF16" else found.tobytes()


def make_array(data: list[Any], datatype: str, shape: list[int]) -> Array:
    """Return the array of an output. BYTES are objects, and BF16 is FP32, which has all its values."""
    if datatype == "BYTES":
        found: Array = np.empty(len(data), dtype=object)
        found[:] = data
    else:
        found = np.array(data, dtype=DTYPES.get(datatype, "<f4"))
    return found.reshape(shape)


def read_array(content: bytes, datatype: str, shape: list[int]) -> Array:
    """Return the array in the content of a file. BF16 is FP32."""
    raw = widen(content) if datatype == "BF16" else content
    return np.frombuffer(bytearray(raw), dtype=DTYPES.get(datatype, "<f4")).reshape(shape)


def join(arrays: list[Array]) -> Array:
    """Return the arrays of a stream's responses as one, along the first dimension."""
    if len(arrays) == 1:
        return arrays[0]
    return np.stack(arrays) if arrays[0].ndim == 0 else np.concatenate(arrays)
