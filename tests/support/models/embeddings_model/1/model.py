"""Embeds a text as its numbers of characters, of words and of vowels. See ../../README.md."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [_answer(request) for request in requests]


def _answer(request):
    texts = [text.decode() for text in pb_utils.get_input_tensor_by_name(request, "text").as_numpy()[:, 0]]
    vectors = [[len(text), len(text.split()), sum(text.count(vowel) for vowel in "aeiou")] for text in texts]
    tokens = [[len(text.split())] for text in texts]
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("embedding", np.array(vectors, np.float32)),
            pb_utils.Tensor("tokens", np.array(tokens, np.int32)),
        ]
    )
