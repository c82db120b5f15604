"""Says the last message. `$refuse` in it is wrong, and `$too_long` has too many tokens. See ../../README.md."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [_answer(request) for request in requests]


def _answer(request):
    asked = json.loads(pb_utils.get_input_tensor_by_name(request, "request").as_numpy()[0])
    said = asked["messages"][-1]["content"]
    if "$refuse" in said:
        return _refuse("messages: refused")
    if "$too_long" in said:
        return _refuse("context_length_exceeded: messages: has too many tokens")
    return pb_utils.InferenceResponse([pb_utils.Tensor("text", np.array([said.encode()], np.object_))])


def _refuse(text):
    error = pb_utils.TritonError(f"INVALID_ARG: {text}", pb_utils.TritonError.INVALID_ARG)
    return pb_utils.InferenceResponse(error=error)
