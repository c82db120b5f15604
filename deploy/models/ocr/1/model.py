"""All lines of an image in one answer."""

import numpy as np
import triton_python_backend_utils as pb_utils
from text_reader import Reader, UnreadableImage


class TritonPythonModel:
    def initialize(self, args):
        self._reader = Reader()

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        image = pb_utils.get_input_tensor_by_name(request, "image").as_numpy()[0]
        try:
            lines = list(self._reader.read(image))
        except UnreadableImage as error:
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError(f"INVALID_ARG: {error}", pb_utils.TritonError.INVALID_ARG)
            )
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("text", np.array([line.text for line in lines], dtype=np.object_)),
                pb_utils.Tensor("boxes", np.array([line.box for line in lines], dtype=np.float32).reshape(-1, 4, 2)),
                pb_utils.Tensor("scores", np.array([line.score for line in lines], dtype=np.float32)),
            ]
        )
