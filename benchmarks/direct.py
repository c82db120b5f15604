"""`python -m benchmarks.direct host:port`: calls Triton as the dispatcher does, without Charonia.

Each call is a ModelStreamInfer of its own, closed after one request, over one connection.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb

from benchmarks.bodies import WORK_MS
from benchmarks.driver import Answering, serve

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
LEAD = 0.5  # seconds of load before counting begins
CALL = 30.0  # seconds


def _make_request(model: str, name: str, datatype: str, values: np.ndarray[Any, Any]) -> Any:
    request = pb.ModelInferRequest(model_name=model)
    request.inputs.add(name=name, datatype=datatype, shape=[1, len(values)])
    request.raw_input_contents.append(values.tobytes())
    return request


REQUESTS = {
    "echo": _make_request("echo", "x", "FP32", np.array([1, 2, 3], dtype=np.float32)),
    "work": _make_request("work", "ms", "INT32", np.array([WORK_MS], dtype=np.int32)),
}


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    channel = grpc.aio.insecure_channel(sys.argv[1])
    stream: Any = channel.unary_stream(
        STREAM,
        request_serializer=pb.ModelInferRequest.SerializeToString,
        response_deserializer=pb.ModelStreamInferResponse.FromString,
    )

    async def call(request: Any) -> bool:
        messages = [message async for message in stream(request, timeout=CALL)]
        return len(messages) == 1 and not messages[0].error_message

    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        request = REQUESTS[question.get("model", "echo")]
        begin = time.perf_counter() + LEAD
        end = begin + question["seconds"]
        counts = {"calls": 0, "counted": 0, "failed": 0}

        async def work() -> None:
            while time.perf_counter() < end:
                done = await call(request)
                counts["calls"] += 1
                counts["failed"] += not done
                counts["counted"] += done and begin <= time.perf_counter() < end

        await asyncio.gather(*(work() for _ in range(question["in_flight"])))
        return counts

    yield answer
    await channel.close()


if __name__ == "__main__":
    serve(open_load)
