"""Answers the words of all texts in lower case, each once, and how many they are."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
        words = list(dict.fromkeys(word for text in texts for word in text.decode(errors="replace").lower().split()))
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("words", np.array(words, dtype=np.object_)),
                pb_utils.Tensor("count", np.array([len(words)], dtype=np.int32)),
            ]
        )
