"""Raw output tensors as the JSON of the API."""

import base64
import hashlib
import math
import struct

import msgspec
import pytest

from common import ids
from common.locations.location import Location
from common.tensors import Datatype, Signature
from common.views.outputs import PIECE, PIECE_BYTES, BadOutput, Output, OutputTensor, render_output
from services.dispatcher.triton.tensors import InlineLimit, TooLarge, check_outputs, complete_shapes, render_outputs
from tests.support.api.outputs import LIMIT, read_output, render

WHOLE: list[tuple[Datatype, bytes, list[object]]] = [
    (Datatype.BOOL, b"\x00\x01\x02", [False, True, True]),
    (Datatype.UINT8, b"\x00\xff", [0, 255]),
    (Datatype.UINT16, b"\x01\x00\xff\xff", [1, 65_535]),
    (Datatype.UINT32, b"\x01\x00\x00\x00\xff\xff\xff\xff", [1, 2**32 - 1]),
    (Datatype.UINT64, b"\x01" + bytes(7) + b"\xff" * 8, [1, 2**64 - 1]),
    (Datatype.INT8, b"\x80\x7f", [-128, 127]),
    (Datatype.INT16, b"\x00\x80\xff\x7f", [-(2**15), 2**15 - 1]),
    (Datatype.INT32, b"\x00\x00\x00\x80\xff\xff\xff\x7f", [-(2**31), 2**31 - 1]),
    (Datatype.INT64, bytes(7) + b"\x80" + b"\xff" * 7 + b"\x7f", [-(2**63), 2**63 - 1]),
]
FRACTIONS: list[tuple[Datatype, bytes, list[object]]] = [
    (Datatype.FP16, struct.pack("<3e", 0.5, -2.0, 65_504), [0.5, -2.0, 65_504.0]),
    (Datatype.BF16, b"\x00\x3f\x00\xc0\x80\x3f", [0.5, -2.0, 1.0]),
    (Datatype.FP32, struct.pack("<3f", 0.5, -2.0, 1e30), [0.5, -2.0, struct.unpack("<f", struct.pack("<f", 1e30))[0]]),
    (Datatype.FP64, struct.pack("<3d", 0.1, -2.0, 1e300), [0.1, -2.0, 1e300]),
]
SPECIAL = [
    (Datatype.FP16, struct.pack("<4e", 1.5, math.nan, math.inf, -math.inf)),
    (Datatype.BF16, b"\xc0\x3f\xc0\x7f\x80\x7f\x80\xff"),
    (Datatype.FP32, struct.pack("<4f", 1.5, math.nan, math.inf, -math.inf)),
    (Datatype.FP64, struct.pack("<4d", 1.5, math.nan, math.inf, -math.inf)),
]


@pytest.mark.parametrize(("datatype", "raw", "data"), WHOLE + FRACTIONS, ids=lambda value: str(value)[:8])
def test_numbers_are_read_exactly(datatype: Datatype, raw: bytes, data: list[object]) -> None:
    output = read_output(OutputTensor("y", datatype, [len(data)], raw))
    assert output.data == data
    assert [type(value) for value in output.data] == [type(value) for value in data]


@pytest.mark.parametrize(("datatype", "raw"), SPECIAL, ids=lambda value: str(value)[:4])
def test_non_finite_numbers_are_strings(datatype: Datatype, raw: bytes) -> None:
    output = read_output(OutputTensor("y", datatype, [4], raw))
    assert output.data == [1.5, "NaN", "Infinity", "-Infinity"]
    assert output.data == [1.5, "NaN", "Infinity", "-Infinity"]


def test_large_finite_numbers_stay_numbers_even_if_their_sum_is_infinite() -> None:
    output = read_output(OutputTensor("y", Datatype.FP64, [2], struct.pack("<2d", 1e308, 1e308)))
    assert output.data == [1e308, 1e308]


def test_infinities_that_cancel_out_are_still_strings() -> None:
    output = read_output(OutputTensor("y", Datatype.FP32, [2], struct.pack("<2f", math.inf, -math.inf)))
    assert output.data == ["Infinity", "-Infinity"]


def packed(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def test_bytes_are_text_if_they_are_utf8_and_base64_otherwise() -> None:
    raw = packed("né\x00e".encode(), b"", b"\xff\x00")
    output = read_output(OutputTensor("y", Datatype.BYTES, [3], raw))
    assert output.data == ["né\x00e", "", {"base64": "/wA="}]


@pytest.mark.parametrize("raw", [b"\x01\x00", packed(b"a") + b"\x00", b"\x05\x00\x00\x00abc"])
def test_truncated_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(BadOutput, match="ends inside"):
        read_output(OutputTensor("y", Datatype.BYTES, [1], raw))


@pytest.mark.parametrize("elements", [(), (b"a", b"b", b"c")])
def test_bytes_whose_count_differs_from_the_shape_are_refused(elements: tuple[bytes, ...]) -> None:
    with pytest.raises(BadOutput, match="elements"):
        read_output(OutputTensor("y", Datatype.BYTES, [1, 2], packed(*elements)))


@pytest.mark.parametrize("datatype", [datatype for datatype in Datatype if datatype is not Datatype.BYTES])
@pytest.mark.parametrize("excess", [-1, 1])
def test_numbers_whose_length_differs_from_the_shape_are_refused(datatype: Datatype, excess: int) -> None:
    size = next(len(raw) // len(data) for kind, raw, data in WHOLE + FRACTIONS if kind is datatype)
    with pytest.raises(BadOutput, match="do not fill"):
        read_output(OutputTensor("y", datatype, [2, 2], bytes(4 * size + excess)))


@pytest.mark.parametrize("datatype", list(Datatype))
def test_a_tensor_may_be_empty(datatype: Datatype) -> None:
    assert read_output(OutputTensor("y", datatype, [0, 4], b"")).data == []


def test_only_a_streamed_output_has_the_number_of_its_response() -> None:
    tensor = OutputTensor("y", Datatype.UINT8, [1], b"\x07")
    assert b"response" not in render(tensor)
    (streamed,) = msgspec.json.decode(render_outputs([tensor], 0, LIMIT, InlineLimit(LIMIT), lambda: None).json)
    assert streamed["response"] == 0


LONG = [
    OutputTensor('"data":[]', Datatype.FP16, [2 * PIECE + 1], struct.pack("<e", 0.1) * (2 * PIECE + 1)),
    OutputTensor(
        "text", Datatype.BYTES, [3], b"".join(struct.pack("<I", PIECE_BYTES) + b"a" * PIECE_BYTES for _ in range(3))
    ),
    OutputTensor("none", Datatype.BOOL, [0], b""),
]


def test_pieces_make_the_same_json_as_the_whole() -> None:
    tenth = struct.unpack("<e", struct.pack("<e", 0.1))[0]
    data = [[tenth] * (2 * PIECE + 1), ["a" * PIECE_BYTES] * 3, []]
    whole = [
        Output(tensor.name, tensor.datatype, tensor.shape, values) for tensor, values in zip(LONG, data, strict=True)
    ]
    assert render(*LONG) == msgspec.json.encode(whole)
    assert render() == b"[]"


def test_outputs_may_be_as_large_as_the_limit_but_no_larger() -> None:
    size = len(render(*LONG))
    assert len(render(*LONG, limit=size)) == size
    with pytest.raises(TooLarge):
        render(*LONG, limit=size - 1)


def test_a_large_output_is_given_up_at_the_limit() -> None:
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1

    tensor = OutputTensor("y", Datatype.UINT8, [100 * PIECE], bytes(100 * PIECE))
    with pytest.raises(TooLarge):
        render_outputs([tensor], -1, 5 * PIECE, InlineLimit(LIMIT), pause)
    assert pauses == 3  # the head, and pieces of two bytes an element


@pytest.mark.parametrize(
    ("element", "data"),
    [
        (bytes(3 * PIECE_BYTES), "\0" * (3 * PIECE_BYTES)),
        (b"a" + "né€😀".encode() * PIECE_BYTES, "a" + "né€😀" * PIECE_BYTES),  # characters across pieces
        (b"a" * PIECE_BYTES + b"\xff" * (2 * PIECE_BYTES + 1), None),
        ("é".encode() * PIECE_BYTES + b"\xc3", None),  # ends inside a character
    ],
    ids=["zeros", "text", "binary", "truncated"],
)
def test_one_large_element_is_rendered_in_small_pieces(element: bytes, data: object) -> None:
    tensor = OutputTensor("y", Datatype.BYTES, [3], packed(b"x", element, b"z"))
    pieces = list(render_output(tensor))
    large = data or {"base64": base64.b64encode(element).decode()}
    assert msgspec.json.decode(b"".join(pieces))["data"] == ["x", large, "z"]
    assert max(map(len, pieces)) <= 6 * PIECE_BYTES  # \u0000


def test_small_elements_are_rendered_together() -> None:
    elements = [b"a" * (PIECE_BYTES // 4)] * 12
    pieces = list(render_output(OutputTensor("y", Datatype.BYTES, [12], packed(*elements))))
    assert max(map(len, pieces)) > PIECE_BYTES // 2
    assert max(map(len, pieces)) <= 6 * PIECE_BYTES


DECLARED = [Signature("y", Datatype.FP32, [-1, 2]), Signature("z", Datatype.INT8, [1])]
Y, Z = OutputTensor("y", Datatype.FP32, [3, 2], bytes(24)), OutputTensor("z", Datatype.INT8, [1], b"\x00")


def test_declared_outputs_pass_in_any_order() -> None:
    check_outputs([Z, Y], DECLARED, complete=True)


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (OutputTensor("x", Datatype.FP32, [3, 2], bytes(24)), "does not declare"),
        (OutputTensor("y", Datatype.FP64, [3, 2], bytes(48)), "declared as FP32"),
        (OutputTensor("y", Datatype.FP32, [3, 3], bytes(36)), "has shape"),
        (OutputTensor("y", Datatype.FP32, [6], bytes(24)), "has shape"),
    ],
)
def test_outputs_that_differ_from_the_declaration_are_refused(tensor: OutputTensor, reason: str) -> None:
    with pytest.raises(BadOutput, match=reason):
        check_outputs([tensor, Z], DECLARED, complete=True)


@pytest.mark.parametrize(
    ("shape", "completed"), [([], [1, 1]), ([6], [6, 1]), ([3, 2], [3, 2]), ([3, 2, 1], [3, 2, 1])]
)
def test_only_dimensions_that_a_shape_lacks_are_added(shape: list[int], completed: list[int]) -> None:
    (tensor,) = complete_shapes([OutputTensor("y", Datatype.FP32, shape, bytes(24))], DECLARED)
    assert tensor.shape == completed


def test_the_shape_of_an_output_that_is_not_declared_stays() -> None:
    unknown = OutputTensor("x", Datatype.FP32, [], bytes(4))
    assert complete_shapes([unknown], DECLARED) == [unknown]


def test_a_missing_output_is_refused_by_name() -> None:
    with pytest.raises(BadOutput, match="'z'"):
        check_outputs([Y], DECLARED, complete=True)


def test_a_streamed_response_may_have_some_of_the_outputs() -> None:
    check_outputs([Z], DECLARED, complete=False)


def test_a_large_tensor_becomes_a_file_and_a_small_one_does_not() -> None:
    large = OutputTensor("y", Datatype.UINT8, [1, 1025], bytes(1025))
    found = render_outputs([large, large._replace(shape=[1024], data=bytes(1024))], 3, LIMIT, InlineLimit(1024), pass_)
    (file,) = found.files
    shown, inline = msgspec.json.decode(found.json, type=list[Output])
    assert shown == Output(
        *("y", Datatype.UINT8, [1, 1025]),
        file=ids.encode(ids.Kind.FILE, file.id),
        size=1025,
        sha256=hashlib.sha256(bytes(1025)).hexdigest(),
        response=3,
    )
    assert (file.size, file.sha256.hex(), bytes(file.data)) == (1025, shown.sha256, bytes(1025))
    assert inline == Output("y", Datatype.UINT8, [1024], [0] * 1024, response=3)


def test_with_a_location_every_output_goes_there() -> None:
    tensors = [OutputTensor(name, Datatype.UINT8, [1], b"x") for name in ("y", "a/b")]
    found = render_outputs(tensors, 2, LIMIT, InlineLimit(1024, Location("bucket", "out/job/1/")), pass_)
    shown = msgspec.json.decode(found.json, type=list[Output])
    digest = hashlib.sha256(b"x").hexdigest()
    assert shown[0] == Output(
        "y", Datatype.UINT8, [1], location="s3://bucket/out/job/1/y-2", size=1, sha256=digest, response=2
    )
    assert [str(file.location) for file in found.files] == [each.location for each in shown]
    assert [bytes(file.data) for file in found.files] == [b"x", b"x"]


def pass_() -> None:
    """Do not pause."""


@pytest.mark.parametrize(
    ("elements", "content"),
    [((b"\xff" * 2000,), b"\xff" * 2000), ((b"a", b"b" * 2000), packed(b"a", b"b" * 2000))],
    ids=["one", "several"],
)
def test_a_file_of_bytes_is_the_element_or_all_elements_with_their_lengths(
    elements: tuple[bytes, ...], content: bytes
) -> None:
    tensor = OutputTensor("y", Datatype.BYTES, [len(elements)], packed(*elements))
    (file,) = render_outputs([tensor], -1, LIMIT, InlineLimit(1024), pass_).files
    assert (bytes(file.data), file.size) == (content, len(content))


@pytest.mark.parametrize("datatype", [Datatype.FP32, Datatype.BYTES])
def test_a_large_tensor_that_does_not_fill_its_shape_is_refused(datatype: Datatype) -> None:
    tensor = OutputTensor("y", datatype, [7], packed(bytes(2000)))
    with pytest.raises(BadOutput, match="shape"):
        render_outputs([tensor], -1, LIMIT, InlineLimit(1024), pass_)


def test_many_tensors_become_files_once_they_are_large_together() -> None:
    inline = InlineLimit(1024)
    assert not inline.takes(1025)
    assert [inline.takes(1000) for _ in range(5)] == [True] * 4 + [False]
    assert [inline.takes(size) for size in (129, 128, 1)] == [False, True, True]
