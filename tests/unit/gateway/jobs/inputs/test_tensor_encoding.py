"""A client's values as Triton's bytes: nothing is converted silently."""

import math
import struct

import pytest

from common.tensors import Datatype
from services.gateway.jobs.inputs.tensor_encoding import InvalidTensor, encode

NUMBERS = [datatype for datatype in Datatype if datatype not in (Datatype.BOOL, Datatype.BYTES)]
RANGES = {
    Datatype.UINT8: (0, 2**8 - 1),
    Datatype.UINT16: (0, 2**16 - 1),
    Datatype.UINT32: (0, 2**32 - 1),
    Datatype.UINT64: (0, 2**64 - 1),
    Datatype.INT8: (-(2**7), 2**7 - 1),
    Datatype.INT16: (-(2**15), 2**15 - 1),
    Datatype.INT32: (-(2**31), 2**31 - 1),
    Datatype.INT64: (-(2**63), 2**63 - 1),
}
LARGEST = {
    Datatype.FP16: 65_504.0,
    Datatype.BF16: 3.3895313892515355e38,
    Datatype.FP32: 3.4028234663852886e38,
}


@pytest.mark.parametrize(
    ("datatype", "values", "raw"),
    [
        (Datatype.BOOL, [True, False], b"\x01\x00"),
        (Datatype.UINT8, [1, 255], b"\x01\xff"),
        (Datatype.INT16, [-2], b"\xfe\xff"),
        (Datatype.INT32, [1], b"\x01\x00\x00\x00"),
        (Datatype.UINT64, [2**64 - 1], b"\xff" * 8),
        (Datatype.FP16, [1.5, -2], b"\x00\x3e\x00\xc0"),
        (Datatype.BF16, [1.5, -2], b"\xc0\x3f\x00\xc0"),
        (Datatype.FP32, [1.5], b"\x00\x00\xc0\x3f"),
        (Datatype.FP64, [1.5], b"\x00" * 6 + b"\xf8\x3f"),
        (
            Datatype.BYTES,
            ["é", "", {"base64": "/wA="}],
            b"\x02\x00\x00\x00\xc3\xa9" + bytes(4) + b"\x02\x00\x00\x00\xff\x00",
        ),
    ],
)
def test_values_become_little_endian_bytes(datatype: Datatype, values: list[object], raw: bytes) -> None:
    assert encode(values, datatype) == raw


@pytest.mark.parametrize("datatype", RANGES)
def test_integers_are_taken_up_to_both_ends_of_their_range_and_no_further(datatype: Datatype) -> None:
    lowest, highest = RANGES[datatype]
    assert len(encode([lowest, highest], datatype)) > 0
    for beyond in (lowest - 1, highest + 1, 10**400):
        with pytest.raises(InvalidTensor, match=f"element 1: .* is outside {lowest}…{highest} of {datatype}"):
            encode([0, beyond], datatype)


@pytest.mark.parametrize("datatype", LARGEST)
def test_a_float_too_large_is_refused_and_never_becomes_infinite(datatype: Datatype) -> None:
    largest = LARGEST[datatype]
    assert len(encode([largest, -largest], datatype)) > 0
    for beyond in (largest * 1.01, -largest * 1.01, 10**400):
        with pytest.raises(InvalidTensor, match=f"element 1: .* is outside .* of {datatype}"):
            encode([0.0, beyond], datatype)


@pytest.mark.parametrize(
    ("value", "half"),
    [
        (1.0, 0x3F80),
        (1.00390625, 0x3F80),  # half way: to the even one below
        (1.01171875, 0x3F82),  # half way: to the even one above
        (1.00391, 0x3F81),
        (-1.00391, 0xBF81),
        (1e-45, 0x0000),
    ],
)
def test_bf16_rounds_to_the_nearest_and_ties_to_even(value: float, half: int) -> None:
    assert struct.unpack("<H", encode([value], Datatype.BF16)) == (half,)


@pytest.mark.parametrize(("datatype", "code"), [(Datatype.FP16, "<3e"), (Datatype.FP32, "<3f"), (Datatype.FP64, "<3d")])
def test_what_json_has_no_number_for_is_taken_by_name(datatype: Datatype, code: str) -> None:
    nan, plus, minus = struct.unpack(code, encode(["NaN", "Infinity", "-Infinity"], datatype))
    assert math.isnan(nan)
    assert (plus, minus) == (math.inf, -math.inf)


def test_bf16_takes_the_names_too() -> None:
    nan, plus, minus = struct.unpack("<3H", encode(["NaN", "Infinity", "-Infinity"], Datatype.BF16))
    assert nan & 0x7F80 == 0x7F80
    assert nan & 0x7F
    assert (plus, minus) == (0x7F80, 0xFF80)


@pytest.mark.parametrize("datatype", NUMBERS)
@pytest.mark.parametrize("value", [True, "1", "nan", None, [1], {}, {"base64": ""}])
def test_only_a_number_is_a_number(datatype: Datatype, value: object) -> None:
    with pytest.raises(InvalidTensor, match=rf"^element 1 is .*; {datatype} takes (whole )?numbers"):
        encode([0, value], datatype)


@pytest.mark.parametrize("datatype", RANGES)
@pytest.mark.parametrize("value", [1.7, 1.0, "NaN"])
def test_a_fraction_is_no_integer(datatype: Datatype, value: object) -> None:
    with pytest.raises(InvalidTensor, match=f"^element 0 is .*; {datatype} takes"):
        encode([value], datatype)


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_only_a_boolean_is_a_boolean(value: object) -> None:
    with pytest.raises(InvalidTensor, match="BOOL takes true and false"):
        encode([value], Datatype.BOOL)


@pytest.mark.parametrize("value", [1, None, True, ["a"], {}, {"base64": 1}, {"base64": "", "x": ""}])
def test_bytes_are_strings_or_base64(value: object) -> None:
    with pytest.raises(InvalidTensor, match=r"^element 1 is .*(; BYTES takes strings|stands for raw bytes)"):
        encode(["a", value], Datatype.BYTES)


@pytest.mark.parametrize("url", ["data:image/png;base64,/wA=", "data:;base64,/wA=", "DATA:a/b;c=d;BASE64,/wA="])
def test_a_data_url_is_taken_as_its_base64(url: str) -> None:
    assert encode([{"base64": url}], Datatype.BYTES) == encode([{"base64": "/wA="}], Datatype.BYTES)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(InvalidTensor, match="element 0 is not Unicode"):
        encode(["\ud800"], Datatype.BYTES)


@pytest.mark.parametrize("text", ["!", "abc", "é", "YQ=", "YQ==\n"])
def test_base64_is_strict_and_the_bad_element_is_named(text: str) -> None:
    with pytest.raises(InvalidTensor, match="element 1 is not base64"):
        encode(["a", {"base64": text}], Datatype.BYTES)
