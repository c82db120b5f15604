"""Packed tensors, with contents in them, in files and at URLs."""

import struct

import pytest

from common import ids, tensors
from common.tensors import Datatype, FileContent, Tensor, UrlContent

IN_FILE = FileContent(ids.new(), 128, 2**31)
AT_URL = UrlContent("https://example.com/")


@pytest.mark.parametrize("size", [0, 1, 300, 70_000])
def test_contents_elsewhere_are_listed(size: int) -> None:
    inline = Tensor("x", Datatype.UINT8, [size], bytes(size))
    assert tensors.list_references(tensors.pack([inline])) == []
    packed = tensors.pack(
        [inline, Tensor("y", Datatype.BYTES, [1], IN_FILE), inline, Tensor("z", Datatype.BYTES, [1], AT_URL)]
    )
    assert tensors.list_references(packed) == [IN_FILE, AT_URL]
    assert [tensor.data for tensor in tensors.unpack(packed)] == [bytes(size), IN_FILE, bytes(size), AT_URL]
    assert len(packed) < 2 * size + 200


def test_an_inline_tensor_has_no_byte_more_than_before_there_were_files() -> None:
    packed = tensors.pack([Tensor("x", Datatype.FP32, [1, 1], struct.pack("<f", 1.0))])
    assert packed == b"\x91\x94\xa1x\xa4FP32\x92\x01\x01\xc4\x04\x00\x00\x80?"
