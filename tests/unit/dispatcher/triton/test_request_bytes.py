"""A request that is written by hand is the one that protobuf writes."""

import struct

import pytest
from tritonclient.grpc import service_pb2 as pb

from common import ids, tensors
from common.tensors import Datatype, FileContent, Tensor
from services.dispatcher.triton.request import InferenceRequest, build_request, describe_request
from services.dispatcher.triton.request_bytes import begin_content, begin_file, begin_whole, write_request, write_varint

SIZES = [0, 1, 127, 128, 300, 16_384, 3_000_000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("datatype", [Datatype.UINT8, Datatype.BYTES])
def test_the_contents_follow_what_protobuf_writes(datatype: Datatype, size: int) -> None:
    content = bytes(size)
    element = struct.pack("<I", size) + content if datatype is Datatype.BYTES else content
    inputs = [
        Tensor("a", Datatype.UINT8, [3], b"abc"),
        Tensor("b", datatype, [1], FileContent(ids.new(), 0, size)),
    ]
    packed = tensors.pack([inputs[0], Tensor("b", datatype, [1], element)])
    request = InferenceRequest("job_1", "echo", "3", packed, b'{"p":1}', 10.0, 1024)
    head = describe_request(request, inputs).SerializeToString()
    message = head + begin_content(3) + b"abc" + begin_whole(datatype, size) + content
    assert pb.ModelInferRequest.FromString(message) == build_request(request)


def test_bytes_that_came_inline_have_their_lengths_already() -> None:
    elements = struct.pack("<I", 3) + b"abc" + struct.pack("<I", 0)
    moved = Tensor("b", Datatype.BYTES, [2], FileContent(ids.new(), 0, len(elements), inline=True))
    packed = tensors.pack([Tensor("b", Datatype.BYTES, [2], elements)])
    request = InferenceRequest("job_1", "echo", "3", packed, None, 10.0, 1024)
    head = describe_request(request, [moved]).SerializeToString()
    assert isinstance(moved.data, FileContent)
    message = head + begin_file(Datatype.BYTES, moved.data) + elements
    assert pb.ModelInferRequest.FromString(message) == build_request(request)


def test_a_written_message_is_sent_as_it_is() -> None:
    request = build_request(InferenceRequest("job_1", "echo", None, b"", None, 10.0, 1024, message=b"written"))
    assert (request.model_name, request.id, write_request(request)) == ("echo", "job_1", b"written")
    message = pb.ModelInferRequest(model_name="echo")
    assert write_request(message) == message.SerializeToString()


def test_varints_have_seven_bits_a_byte() -> None:
    written = [write_varint(value) for value in (0, 127, 128, 2**31 - 1)]
    assert written == [b"\x00", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x07"]
