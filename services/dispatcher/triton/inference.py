"""Sends a request to Triton, and collects the responses within its timeout."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager

from opentelemetry.trace import SpanKind

from common.job_states import Failure
from common.telemetry import tracing
from services.dispatcher.triton.client import TritonClient, quarantined
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.request import InferenceRequest, build_request
from services.dispatcher.triton.responses import InferenceResult, ResponseCollector
from services.dispatcher.triton.tensors import Rendered

LARGEST_SHARE = 0.5  # of the timeout, for reading files; beyond it, the model had too little time for a verdict
OnResponse = Callable[[Rendered], Awaitable[None]]


async def infer(
    triton: TritonClient, request: InferenceRequest, model: ModelVersion, on_response: OnResponse | None = None
) -> InferenceResult:
    """Infer within the timeout of a request. Raises InferenceError.

    `on_response` gets each response as it arrives. The timeout does not count the time that it takes: it may wait for
    the database or the object store.
    """
    attributes = {
        "rpc.system.name": "grpc",
        "rpc.method": "inference.GRPCInferenceService/ModelStreamInfer",
        "charonia.model": request.model,
        "charonia.job_id": request.id,
    }
    with tracing.start_span(f"infer {request.model}", kind=SpanKind.CLIENT, attributes=attributes) as span:
        traceparent = tracing.to_traceparent(span)
        # Triton samples every request with a traceparent, whatever its flag. So only sampled traces send one.
        metadata = [("traceparent", traceparent)] if tracing.is_sampled(traceparent) else []
        collector = ResponseCollector(model, triton.max_message, request)
        began, epoch = time.monotonic(), triton.quarantine.epoch(request.model)
        try:
            async with asyncio.timeout(request.timeout - request.spent) as deadline:
                with triton.quarantine.interrupt(request.model, deadline):
                    async with aclosing(triton.infer(build_request(request), metadata)) as responses:
                        async for response in responses:  # to the end, also after an invalid one
                            rendered = await collector.add(response)
                            if rendered is not None and on_response is not None:
                                with pause(deadline):
                                    await on_response(rendered)
        except TimeoutError:
            if not triton.quarantine.accepts(request.model, epoch):
                raise quarantined(refused=False) from None
            raise await explain_timeout(triton, request, began) from None
        return collector.result()


@contextmanager
def pause(deadline: asyncio.Timeout) -> Iterator[None]:
    """Stop a deadline for the time of this context. A quarantine may set another one meanwhile, which stays."""
    clock, until = asyncio.get_running_loop().time, deadline.when()
    assert until is not None, "the attempt has a deadline"
    left = until - clock()
    deadline.reschedule(None)
    try:
        yield
    finally:
        if deadline.when() is None:
            deadline.reschedule(clock() + left)


async def explain_timeout(triton: TritonClient, request: InferenceRequest, began: float) -> InferenceError:
    """Return the error of an attempt that took longer than its timeout. Triton had it from `began` on."""
    outage = await triton.stalled_since(began)
    text = f"the attempt took longer than its timeout of {request.timeout:g} s"
    if request.spent > request.timeout * LARGEST_SHARE and not outage:  # a model with little time is not to blame
        text = f"{text}, and reading its files took {request.spent:.3g} s of it; give it a longer one"
        return InferenceError(Failure("input_timeout", text, True))
    return InferenceError(Failure("timeout", text, True), outage=outage)
