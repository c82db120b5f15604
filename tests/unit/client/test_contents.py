"""The content of an output's file has the same elements as its JSON."""

import struct
from base64 import b64encode
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from charonia.contents import decode_content, encode_content
from charonia.errors import CharoniaError
from charonia.results import Outputs
from charonia.schemas import Output

from common.tensors import SIZES, Datatype
from common.views.outputs import OutputTensor, write_content
from tests.support.api.outputs import render


def read_inline(tensor: OutputTensor) -> Output:
    """Return an output as the API shows a small one."""
    (output,) = msgspec.json.decode(render(tensor), type=list[Output])
    return output


def make_tensor(datatype: Datatype, count: int = 6) -> OutputTensor:
    if datatype is Datatype.BYTES:
        elements = [bytes([200 + number]) * number for number in range(count - 1)] + ["größe".encode()]
        raw = b"".join(struct.pack("<I", len(each)) + each for each in elements)
    elif datatype is Datatype.BOOL:
        raw = b"\x00\x01" * (count // 2)
    else:
        raw = b"".join((number % 120).to_bytes(SIZES[datatype], "little") for number in range(count))
    return OutputTensor("y", datatype, [2, count // 2], raw)


@pytest.mark.parametrize("datatype", list(Datatype))
def test_a_file_and_its_json_are_the_same_values(datatype: Datatype) -> None:
    tensor = make_tensor(datatype)
    inline, content = read_inline(tensor), bytes(write_content(tensor, lambda: None))
    stored = Output("y", datatype, tensor.shape, file="file_1", size=len(content), content=content)
    assert Outputs([stored])["y"] == Outputs([inline])["y"]
    arrays = [Outputs([output]).numpy("y") for output in (stored, inline)]
    assert arrays[0].dtype == arrays[1].dtype
    assert arrays[0].tolist() == arrays[1].tolist()
    assert encode_content(inline) == content == encode_content(stored)


@pytest.mark.parametrize("element", ["größe".encode(), b"\xff\x00", b""])
def test_a_file_of_one_element_is_the_element(element: bytes) -> None:
    tensor = OutputTensor("y", Datatype.BYTES, [1], struct.pack("<I", len(element)) + element)
    content = bytes(write_content(tensor, lambda: None))
    assert content == element == encode_content(read_inline(tensor))
    (found,) = decode_content(content, "BYTES", [1])
    assert (found.encode() if isinstance(found, str) else found) == element
    assert Outputs([Output("y", "BYTES", [1], file="file_1", content=content)]).file("y").read() == element


def test_an_array_can_be_written_to() -> None:
    array = Outputs([Output("y", "FP32", [1], file="file_1", content=bytes(4))]).numpy("y")
    array[0] = 1.5
    assert array.dtype == np.float32


def test_what_is_not_downloaded_says_where_it_is() -> None:
    outputs = Outputs([Output(name, name, [1], file="file_1", size=7) for name in ("FP32", "BYTES")])
    readers: list[Callable[[], object]] = [lambda: outputs["FP32"], lambda: outputs.numpy("FP32")]
    readers += [lambda: outputs["BYTES"], lambda: outputs.numpy("BYTES"), lambda: outputs.file("BYTES")]
    for read in readers:
        with pytest.raises(CharoniaError, match="has 7 bytes in file_1, and is not downloaded; save it with"):
            read()


def test_other_bytes_of_json_are_in_base64() -> None:
    shown = Output("y", "BYTES", [2], ["a", {"base64": b64encode(b"\xff").decode()}])
    assert encode_content(shown) == b"\x01\x00\x00\x00a\x01\x00\x00\x00\xff"


def test_an_output_at_a_location_names_it() -> None:
    output = Output("y", "FP32", [1], size=4, location="s3://bucket/out/job/1/y")
    outputs = Outputs([output])
    for read in (lambda: outputs["y"], lambda: outputs.numpy("y"), lambda: encode_content(output)):
        with pytest.raises(CharoniaError, match="has 4 bytes at s3://bucket/out/job/1/y, where only your own"):
            read()
