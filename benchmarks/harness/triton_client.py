"""Calls Triton as the dispatcher does, without Charonia: each call is a stream of its own, closed after one request."""

import asyncio
import time

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb

from benchmarks.harness.load_generator import IMAGE, LEAD_SECONDS, WORK_MS
from benchmarks.harness.report import Figures

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
SERIALIZERS = pb.ModelInferRequest.SerializeToString, pb.ModelStreamInferResponse.FromString
CALL_SECONDS = 30.0
INPUTS = {  # name, datatype, number of elements, and their bytes
    "echo": ("x", "FP32", 3, np.array([1, 2, 3], dtype=np.float32).tobytes()),
    "work": ("ms", "INT32", 1, np.array([WORK_MS], dtype=np.int32).tobytes()),
    "vision_transformer": ("image", "BYTES", 1, len(IMAGE).to_bytes(4, "little") + IMAGE),
}


async def call_triton(address: str, in_flight: int, seconds: float, model: str) -> Figures:
    """Keep `in_flight` calls under way; `counted` are those that succeeded within `seconds`."""
    name, datatype, elements, values = INPUTS[model]
    request = pb.ModelInferRequest(model_name=model, raw_input_contents=[values])
    request.inputs.add(name=name, datatype=datatype, shape=[1, elements])
    figures: Figures = {"jobs": 0, "counted": 0, "failed": 0, "duplicates": 0}
    begin = time.perf_counter() + LEAD_SECONDS
    end = begin + seconds

    async with grpc.aio.insecure_channel(address) as channel:
        stream = channel.unary_stream(STREAM, *SERIALIZERS)

        async def repeat() -> None:
            while time.perf_counter() < end:
                messages = [message async for message in stream(request, timeout=CALL_SECONDS)]
                done = len(messages) == 1 and not messages[0].error_message
                figures["jobs"] += 1
                figures["failed"] += not done
                figures["counted"] += done and begin <= time.perf_counter() < end

        await asyncio.gather(*(repeat() for _ in range(in_flight)))
    return figures
