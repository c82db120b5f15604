"""Fails in the way it is asked to."""

import os
import signal
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

HANG = 3_600_000  # ms, where no value is given
REMEMBERED = 1000  # keys of fail_times; the oldest is forgotten


class TritonPythonModel:
    def initialize(self, args):
        self._failures = OrderedDict()
        self._modes = {
            "ok": _ok,
            "raise": _raise,
            "invalid": _invalid,
            "unavailable": _unavailable,
            "hang": _hang,
            "none": _none,
            "missing_output": _missing_output,
            "wrong_datatype": _wrong_datatype,
            "wrong_shape": _wrong_shape,
            "large": _large,
            "kill": _kill,
            "crash_server": _crash_server,
            "fail_times": self._fail_times,
        }

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        mode = _string(request, "mode")
        if mode not in self._modes:
            return _error(
                f"INVALID_ARG: unknown mode {mode!r}, not one of {', '.join(self._modes)}",
                pb_utils.TritonError.INVALID_ARG,
            )
        return self._modes[mode](request)

    def _fail_times(self, request):
        key = _string(request, "key") or request.request_id()
        seen = self._failures.pop(key, 0)
        if seen >= _value(request, 1):
            return _ok(request)
        self._failures[key] = seen + 1
        if len(self._failures) > REMEMBERED:
            self._failures.popitem(last=False)
        return _error(f"failure {seen + 1} as asked", pb_utils.TritonError.UNAVAILABLE)


def _ok(request):
    return _result(np.array([b"ok"], dtype=np.object_))


def _raise(request):
    raise RuntimeError("raised as asked")


def _invalid(request):
    return _error("INVALID_ARG: invalid as asked", pb_utils.TritonError.INVALID_ARG)


def _unavailable(request):
    return _error("unavailable as asked", pb_utils.TritonError.UNAVAILABLE)


def _hang(request):
    # Deaf to cancellation, as a stuck kernel is: nothing but the server's end shortens it.
    time.sleep(_value(request, HANG) / 1000)
    return _ok(request)


def _none(request):
    return None


def _missing_output(request):
    return pb_utils.InferenceResponse([])


def _wrong_datatype(request):
    return _result(np.array([1.5], dtype=np.float32))


def _wrong_shape(request):
    return _result(np.array([b"a", b"b", b"c"], dtype=np.object_))


def _large(request):
    return _result(np.array([bytes(_value(request, 1))], dtype=np.object_))


def _kill(request):
    os.kill(os.getpid(), signal.SIGKILL)


def _crash_server(request):
    parent = os.getppid()
    name = Path(f"/proc/{parent}/comm").read_text().strip()
    if name != "tritonserver":  # never shoot at a stranger
        return _error(f"the parent is {name}, not tritonserver", pb_utils.TritonError.INTERNAL)
    os.kill(parent, signal.SIGKILL)
    return _ok(request)


def _string(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return "" if tensor is None else tensor.as_numpy()[0].decode(errors="replace")


def _value(request, default):
    tensor = pb_utils.get_input_tensor_by_name(request, "value")
    return default if tensor is None else int(tensor.as_numpy()[0])


def _result(array):
    return pb_utils.InferenceResponse([pb_utils.Tensor("result", array)])


def _error(message, code):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))
