"""Says a text word by word; stops where the request is cancelled. For `$now` it says the time, in unix seconds.

Each word but the first begins with a space, as the tokens of language models do. So the words joined are a text.
"""

import time

import numpy as np
import triton_python_backend_utils as pb_utils

SLICE = 0.01  # seconds between two looks at the cancellation
NOW = b"$now"


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            _say(request)


def _say(request):
    sender = request.get_response_sender()
    delay = _delay(request)
    space = b""
    for word in _text(request).split():
        if not _wait(delay, sender):
            error = pb_utils.TritonError("cancelled between two words", pb_utils.TritonError.CANCELLED)
            sender.send(pb_utils.InferenceResponse(error=error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return
        said = repr(time.time()).encode() if word == NOW else word
        token = np.array([space + said], dtype=np.object_)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("token", token)]))
        space = b" "
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _text(request):
    # bytes.split() cuts at whitespace too, and leaves what is not UTF-8 as it came.
    return pb_utils.get_input_tensor_by_name(request, "text").as_numpy()[0]


def _delay(request):
    tensor = pb_utils.get_input_tensor_by_name(request, "delay_ms")
    return 0 if tensor is None else int(tensor.as_numpy()[0]) / 1000


def _wait(seconds, sender):
    """Return whether the request still wants an answer after this long."""
    deadline = time.monotonic() + seconds
    while not sender.is_cancelled():
        left = deadline - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(SLICE, left))
    return False
