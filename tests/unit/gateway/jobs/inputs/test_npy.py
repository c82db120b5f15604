"""The headers of .npy files, as NumPy writes them, and those that Triton cannot take."""

import io
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from common.tensors import SIZES, Datatype
from services.gateway.jobs.inputs.npy import HEAD_BYTES, MAGIC, NpyHeader, describe_npy

KINDS = {
    Datatype.BOOL: np.bool_,
    Datatype.FP16: np.float16,
    Datatype.BF16: ml_dtypes.bfloat16,
    Datatype.FP32: np.float32,
    Datatype.FP64: np.float64,
} | {kind: np.dtype(kind.lower()) for kind in Datatype if "INT" in kind}


def save(array: Any, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def with_header(text: str) -> bytes:
    return MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize("datatype", [kind for kind in Datatype if kind is not Datatype.BYTES])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)], ids=str)
def test_every_datatype_is_known(datatype: Datatype, version: tuple[int, int]) -> None:
    saved = save(np.zeros((2, 0, 3, 5), KINDS[datatype]), version)
    assert describe_npy(saved[:HEAD_BYTES]) == NpyHeader(datatype, [2, 0, 3, 5], len(saved))
    saved = save(np.zeros(7, KINDS[datatype]), version)
    assert describe_npy(saved) == NpyHeader(datatype, [7], len(saved) - 7 * SIZES[datatype])


def test_a_scalar_and_a_vector_have_no_order() -> None:
    assert describe_npy(save(np.float32(1))) == NpyHeader(Datatype.FP32, [], 128)
    text = "{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }"
    assert describe_npy(with_header(text)) == NpyHeader(Datatype.FP32, [3], 10 + len(text))


@pytest.mark.parametrize("content", [b"", b"\x93NUMP", b"PNG", bytes(200)])
def test_other_files_are_none(content: bytes) -> None:
    assert describe_npy(content) is None


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (save(np.zeros(2, ">f4")), "big-endian (>f4); save array.astype('<f4')"),
        (save(np.zeros((2, 3), np.float32, order="F")), "save numpy.ascontiguousarray(array)"),
        (save(np.zeros(2, "U3")), "elements are <U3, which Triton has no datatype for"),
        (save(np.zeros(2, np.complex64)), "elements are <c8"),
        (save(np.zeros(2, [("a", "<f4")])), "elements are [('a', '<f4')]"),
        (with_header(f"{{'descr': 0x{'f' * 5000}, 'shape': (), }}"), "elements are an invalid type"),
        (with_header(f"{{'descr': [0x{'f' * 5000}], 'shape': (), }}"), "elements are an invalid type"),
        (save(np.zeros(2, np.float32))[:60], "cut"),
        (MAGIC, "not valid"),
        (MAGIC + b"\x01\x00\xff", "not valid"),
        (with_header("{'descr': "), "not valid"),
        (with_header("[]"), "not valid"),
        (with_header("(" * 5000), "not valid"),
        (with_header("{'descr': '<f4', 'fortran_order': False}"), "no valid shape"),
        (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "no valid shape"),
        (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}"), "no valid shape"),
        (with_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**63},)}}"), "no valid shape"),
        (with_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0x{'f' * 6000}, 1)}}"), "no valid shape"),
        (with_header("{'descr': '\\ud800', 'fortran_order': False, 'shape': (1,)}"), r"elements are \ud800"),
        (with_header("{'descr': '<f4', 'shape': (2, 2)}"), "Fortran"),
        (MAGIC + b"\x00\x00" + save(np.zeros(2, np.float32))[8:], "version 0"),
        (MAGIC + b"\x04\x00" + save(np.zeros(2, np.float32), (3, 0))[8:], "version 4"),
        (with_header("__import__('os').abort()"), "not valid"),
    ],
)
def test_what_triton_cannot_take_is_explained(head: bytes, reason: str) -> None:
    found = describe_npy(head)
    assert isinstance(found, str)
    assert reason in found
    assert found.encode()
