"""Messages of Triton are read as protobuf reads them, and large ones without a copy of their tensors."""

import pytest
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb

from services.dispatcher.triton.messages import LARGE, read_large, read_message

OUTPUTS = [
    pb.ModelInferResponse.InferOutputTensor(name=name, datatype="UINT8", shape=[size])
    for name, size in (("large", LARGE), ("none", 0), ("small", 200))
]
RAWS = [b"\x07" * LARGE, b"", b"\x08" * 200]
RESPONSE = pb.ModelInferResponse(
    model_name="echo", model_version="3", id="job_1", outputs=OUTPUTS, raw_output_contents=RAWS
)
RESPONSE.parameters["triton_final_response"].bool_param = True
MESSAGE = pb.ModelStreamInferResponse(error_message="né" * 100, infer_response=RESPONSE)


def test_a_large_message_is_the_same_as_protobuf_reads_it() -> None:
    message = read_message(MESSAGE.SerializeToString())
    message.response.raw_output_contents.extend(map(bytes, message.raws))
    assert (message.error_message, message.response) == (MESSAGE.error_message, RESPONSE)


def test_large_tensors_are_not_copied() -> None:
    data = MESSAGE.SerializeToString()
    (large, none, small) = read_message(data).raws
    assert [isinstance(raw, memoryview) and raw.obj is data for raw in (large, none, small)] == [True] * 3
    assert [bytes(raw) for raw in (large, none, small)] == RAWS


@pytest.mark.parametrize(
    "message", [MESSAGE, pb.ModelStreamInferResponse(), pb.ModelStreamInferResponse(error_message="no")]
)
def test_both_ways_to_read_agree(message: pb.ModelStreamInferResponse) -> None:
    data = message.SerializeToString()
    own = read_large(memoryview(data))
    assert (own.error_message, own.response.id, own.response.outputs, [bytes(raw) for raw in own.raws]) == (
        message.error_message,
        message.infer_response.id,
        message.infer_response.outputs,
        message.infer_response.raw_output_contents,
    )


@pytest.mark.parametrize(
    "data", [b"\x12\x05abc", b"\x12", b"\x08\x01", b"\xff" * 11, MESSAGE.SerializeToString()[:-1], b"\x0a\x01\xff"]
)
def test_a_broken_message_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_large(memoryview(data))
