"""Answers a chat request token by token; the last response has why it ended and the usage.

A cancelled request ends at its next token.
"""

import json

import numpy as np
import triton_python_backend_utils as pb_utils
from chat_request import InvalidRequest, read_request
from engine import Engine, EngineError

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self._engine = Engine()

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(self._answer(request, sender), flags=FINAL)

    def _answer(self, request, sender):
        """Send all responses but the last, which is returned."""
        if sender.is_cancelled():
            return _cancelled()
        try:
            asked = read_request(pb_utils.get_input_tensor_by_name(request, "request").as_numpy()[0])
            ended = self._engine.answer(asked, lambda text: sender.send(_response(text=text)), sender.is_cancelled)
        except InvalidRequest as error:
            return _error(f"INVALID_ARG: {error}", pb_utils.TritonError.INVALID_ARG)
        except EngineError as error:
            return _error(str(error), pb_utils.TritonError.INTERNAL)
        if ended is None:
            return _cancelled()
        reason, usage = ended
        return _response(text="", finish_reason=reason, usage=json.dumps(usage))


def _response(**outputs):
    tensors = [pb_utils.Tensor(name, np.array([text.encode()], dtype=np.object_)) for name, text in outputs.items()]
    return pb_utils.InferenceResponse(tensors)


def _cancelled():
    return _error("cancelled between two tokens", pb_utils.TritonError.CANCELLED)


def _error(message, code):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))
