"""Triton's own HTTP client, which is to find no difference between the gateway and a Triton."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import tritonclient.http as triton
from numpy.typing import NDArray

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack

KEY = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
# Each input of the model `mirror`, with what NumPy calls its datatype.
MIRROR: dict[str, Any] = {
    "bool": np.bool_,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "fp64": np.float64,
    "bytes": np.object_,
}
HALVES = ("fp16", "bf16")  # which Triton takes and gives as raw bytes only
Array = NDArray[Any]
T = TypeVar("T")


class Server:
    """Where a client is pointed; `headers` go with every call."""

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        self.address = f"127.0.0.1:{port}"
        self.headers = dict(headers or {})

    async def call(self, use: Callable[[Any], T]) -> T:
        """What `use` returns of a client. It lives in one thread, as gevent asks."""

        def run() -> T:
            with triton.InferenceServerClient(self.address, network_timeout=90, concurrency=4) as client:
                return use(client)

        return await asyncio.to_thread(run)

    async def infer(self, model: str, inputs: list[Any], **options: Any) -> Any:
        headers = dict(self.headers)
        return await self.call(lambda client: client.infer(model, inputs, headers=headers, **options))

    async def fail(self, model: str, inputs: list[Any], **options: Any) -> tuple[str, str]:
        """Status and text of the error that comes instead."""
        try:
            found = await self.infer(model, inputs, **options)
        except triton.InferenceServerException as error:
            return str(error.status()), str(error.message())
        raise AssertionError(f"no error: {found.get_response()}")


def both(stack: Stack) -> tuple[Server, Server]:
    """The gateway and the Triton behind it."""
    return Server(stack.settings.gateway_port, KEY), Server(stack.settings.triton_http_port)


def tensor(name: str, array: Array, *, binary: bool = True) -> Any:
    datatype = triton.np_to_triton_dtype(array.dtype)
    return triton.InferInput(name, list(array.shape), datatype).set_data_from_numpy(array, binary_data=binary)


def x(*values: float) -> Any:
    """What the model `echo` takes."""
    return tensor("x", np.array([values], np.float32))


def text(name: str, value: str) -> Any:
    return tensor(name, np.array([value.encode()], np.object_))


def fill(*, texts: bool) -> dict[str, Array]:
    """An array of every datatype, with the ends of its range and all that is special; `texts`: BYTES that are text."""
    found: dict[str, Array] = {}
    for name, dtype in MIRROR.items():
        if name == "bytes":
            other = "größe\0".encode() if texts else b"\xff\x00\xfe"
            values: list[Any] = [b"", other, b'{"base64": "', "ü".encode()]
        elif name == "bool":
            values = [True, False, False, True]
        elif "int" in name:
            values = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 7]
        else:
            values = [np.nan, -np.inf, -0.0, 0.1]
        found[name] = np.array([values], dtype=dtype).reshape(2, 2)
    return found


def reflect(arrays: Mapping[str, Array], *, binary: bool = True) -> list[Any]:
    """What the model `mirror` takes."""
    return [tensor(name, array, binary=binary or name in HALVES) for name, array in arrays.items()]


def want(names: Mapping[str, bool]) -> list[Any]:
    """Outputs, each raw or not."""
    return [triton.InferRequestedOutput(name, binary_data=binary) for name, binary in names.items()]


def assert_equal(result: Any, arrays: Mapping[str, Array]) -> None:
    """The outputs are these, to the bit."""
    for name, array in arrays.items():
        found = result.as_numpy(name)
        assert (found.dtype, found.shape) == (array.dtype, array.shape), name
        same = found.tolist() == array.tolist() if array.dtype == np.object_ else found.tobytes() == array.tobytes()
        assert same, name
