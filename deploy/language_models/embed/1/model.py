"""Embeds the texts of all waiting requests at once, and counts their tokens."""

import numpy as np
import triton_python_backend_utils as pb_utils
from encoder import Encoder, InvalidText


class TritonPythonModel:
    def initialize(self, args):
        self._encoder = Encoder()

    def execute(self, requests):
        read = [self._read(request) for request in requests]
        texts = [ids for each in read if not isinstance(each, InvalidText) for ids in each]
        rows = iter(self._encoder.embed(texts) if texts else ())
        return [_error(each) if isinstance(each, InvalidText) else _response(each, rows) for each in read]

    def _read(self, request):
        """Return the tokens of each text of a request, or the error of the first that is wrong."""
        texts = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
        try:
            return [self._encoder.tokenize(text) for text in texts[:, 0]]
        except InvalidText as error:
            return error


def _response(texts, rows):
    vectors = np.array([next(rows) for _ in texts], np.float32)
    counts = np.array([[len(ids)] for ids in texts], np.int32)
    return pb_utils.InferenceResponse([pb_utils.Tensor("embedding", vectors), pb_utils.Tensor("tokens", counts)])


def _error(error):
    return pb_utils.InferenceResponse(
        error=pb_utils.TritonError(f"INVALID_ARG: {error}", pb_utils.TritonError.INVALID_ARG)
    )
