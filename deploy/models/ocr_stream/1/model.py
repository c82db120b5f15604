"""Each line of an image in an answer of its own."""

import numpy as np
import triton_python_backend_utils as pb_utils
from text_reader import Reader, UnreadableImage

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self._reader = Reader()

    def execute(self, requests):
        for request in requests:
            self._stream(request, request.get_response_sender())

    def _stream(self, request, sender):
        image = pb_utils.get_input_tensor_by_name(request, "image").as_numpy()[0]
        try:
            for line in self._reader.read(image):
                if sender.is_cancelled():
                    sender.send(_error("cancelled between two lines", pb_utils.TritonError.CANCELLED), flags=FINAL)
                    return
                sender.send(_response(line))
        except UnreadableImage as error:
            sender.send(_error(f"INVALID_ARG: {error}", pb_utils.TritonError.INVALID_ARG), flags=FINAL)
            return
        sender.send(flags=FINAL)


def _response(line):
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("text", np.array([line.text], dtype=np.object_)),
            pb_utils.Tensor("box", line.box),
            pb_utils.Tensor("score", np.array([line.score], dtype=np.float32)),
        ]
    )


def _error(message, code):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))
