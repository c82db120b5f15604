"""Sleeps once for a whole batch; counts what it did on Triton's metrics port."""

import time
from collections import OrderedDict

import triton_python_backend_utils as pb_utils

SLICE = 0.01  # seconds between two looks at the cancellations
REMEMBERED = 1000  # request ids with a counter of their own; the oldest is forgotten


class TritonPythonModel:
    def initialize(self, args):
        self._batches = Counter("work_batches_total", "Batches executed")
        self._requests = Counter("work_requests_total", "Requests executed, cancelled ones included")
        self._cancelled = Counter("work_cancelled_total", "Requests the model saw cancelled while it ran")
        self._executions = Executions()

    def execute(self, requests):
        self._batches.add(1)
        self._requests.add(len(requests))
        for request in requests:
            self._executions.record(request.request_id())
        asked = [_asked(request) for request in requests]
        cancelled = _sleep([int(ms.max()) / 1000 for ms in asked], requests)
        if cancelled:
            self._cancelled.add(len(cancelled))
        return [_answer(ms, index in cancelled) for index, ms in enumerate(asked)]


class Counter:
    """One number on the metrics port."""

    def __init__(self, name, description):
        self._family = _family(name, description)  # kept, because its metrics end with it
        self._metric = self._family.Metric(labels={})

    def add(self, count):
        self._metric.increment(count)


class Executions:
    """How often each request id was executed, as one metric a request id."""

    def __init__(self):
        self._family = _family("work_executions_total", "Executions by request id, of recent requests")
        self._metrics = OrderedDict()

    def record(self, request_id):
        if not request_id:
            return
        if request_id not in self._metrics:
            self._metrics[request_id] = self._family.Metric(labels={"request_id": request_id})
        self._metrics.move_to_end(request_id)
        self._metrics[request_id].increment(1)
        if len(self._metrics) > REMEMBERED:
            self._metrics.popitem(last=False)


def _family(name, description):
    return pb_utils.MetricFamily(name=name, description=description, kind=pb_utils.MetricFamily.COUNTER)


def _asked(request):
    return pb_utils.get_input_tensor_by_name(request, "ms").as_numpy()


def _sleep(seconds, requests):
    """Sleep as long as the slowest request that is not cancelled; return the indexes of the cancelled."""
    start = time.monotonic()
    running = set(range(len(requests)))
    while True:
        running -= {index for index in running if requests[index].is_cancelled()}
        left = start + max((seconds[index] for index in running), default=0) - time.monotonic()
        if left <= 0:
            return set(range(len(requests))) - running
        time.sleep(min(SLICE, left))


def _answer(ms, cancelled):
    if cancelled:
        error = pb_utils.TritonError("cancelled while it ran", pb_utils.TritonError.CANCELLED)
        return pb_utils.InferenceResponse(error=error)
    return pb_utils.InferenceResponse([pb_utils.Tensor("slept", ms)])
