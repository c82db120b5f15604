"""Triton's own HTTP client, which must find no difference between a gateway and a Triton."""

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
# Each input of the model `mirror`, and its type in NumPy.
MIRROR_DTYPES: dict[str, Any] = {
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
RAW_ONLY = ("fp16", "bf16")  # Triton reads and writes these only as raw bytes
Array = NDArray[Any]
T = TypeVar("T")


class InferenceServer:
    """A server for a client to call. `headers` are sent with every call."""

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        self.address = f"127.0.0.1:{port}"
        self.headers = dict(headers or {})

    async def call(self, use: Callable[[Any], T]) -> T:
        """Return what `use` returns when called with a client. The client stays in one thread, as gevent requires."""

        def run() -> T:
            with triton.InferenceServerClient(self.address, network_timeout=90, concurrency=4) as client:
                return use(client)

        return await asyncio.to_thread(run)

    async def infer(self, model: str, inputs: list[Any], **options: Any) -> Any:
        headers = dict(self.headers)
        return await self.call(lambda client: client.infer(model, inputs, headers=headers, **options))

    async def infer_error(self, model: str, inputs: list[Any], **options: Any) -> tuple[str, str]:
        """Return the status and the message of the error that an inference must end with."""
        try:
            result = await self.infer(model, inputs, **options)
        except triton.InferenceServerException as error:
            return str(error.status()), str(error.message())
        raise AssertionError(f"no error: {result.get_response()}")


def gateway_and_triton(stack: Stack) -> tuple[InferenceServer, InferenceServer]:
    """Return the stack's gateway and the Triton behind it."""
    return InferenceServer(stack.settings.gateway_port, KEY), InferenceServer(stack.settings.triton_http_port)


def make_tensor(name: str, array: Array, *, binary: bool = True) -> Any:
    datatype = triton.np_to_triton_dtype(array.dtype)
    return triton.InferInput(name, list(array.shape), datatype).set_data_from_numpy(array, binary_data=binary)


def echo_input(*values: float) -> Any:
    """Return the input of the model `echo`."""
    return make_tensor("x", np.array([values], np.float32))


def text_input(name: str, value: str) -> Any:
    return make_tensor(name, np.array([value.encode()], np.object_))


def make_arrays(*, texts: bool) -> dict[str, Array]:
    """Return an array of every datatype, with extreme and special values.

    With `texts`, the BYTES are valid UTF-8.
    """
    result: dict[str, Array] = {}
    for name, dtype in MIRROR_DTYPES.items():
        if name == "bytes":
            other = "größe\0".encode() if texts else b"\xff\x00\xfe"
            values: list[Any] = [b"", other, b'{"base64": "', "ü".encode()]
        elif name == "bool":
            values = [True, False, False, True]
        elif "int" in name:
            values = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 7]
        else:
            values = [np.nan, -np.inf, -0.0, 0.1]
        result[name] = np.array([values], dtype=dtype).reshape(2, 2)
    return result


def mirror_inputs(arrays: Mapping[str, Array], *, binary: bool = True) -> list[Any]:
    """Return the inputs of the model `mirror`."""
    return [make_tensor(name, array, binary=binary or name in RAW_ONLY) for name, array in arrays.items()]


def request_outputs(names: Mapping[str, bool]) -> list[Any]:
    """Return the requested outputs, each as raw bytes or as JSON."""
    return [triton.InferRequestedOutput(name, binary_data=binary) for name, binary in names.items()]


def assert_equal(result: Any, arrays: Mapping[str, Array]) -> None:
    """Check that the outputs equal these arrays, to the bit."""
    for name, array in arrays.items():
        found = result.as_numpy(name)
        assert (found.dtype, found.shape) == (array.dtype, array.shape), name
        same = found.tolist() == array.tolist() if array.dtype == np.object_ else found.tobytes() == array.tobytes()
        assert same, name
