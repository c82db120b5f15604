"""A stub of TensorRT-LLM's BLS model, which says the words of its prompt. See ../../README.md."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
AT_ONCE = 32  # the backend takes all requests at once
SLOW_SECONDS = 0.1


class TritonPythonModel:
    def initialize(self, args):
        self._threads = ThreadPoolExecutor(AT_ONCE)

    def execute(self, requests):
        for request in requests:
            self._threads.submit(_serve, request, request.get_response_sender())

    def finalize(self):
        self._threads.shutdown()


def _serve(request, sender):
    try:
        _answer(request, sender)
        sender.send(flags=FINAL)
    except Exception as error:
        _send_error(sender, str(error), pb_utils.TritonError.INTERNAL)


def _answer(request, sender):
    prompt = _read_all(request, "text_input")[0].decode()
    stream = bool(_read(request, "stream", False))
    pieces = _speak(prompt, request)
    for number, piece in enumerate(pieces):
        time.sleep(SLOW_SECONDS if "$slow" in prompt else 0)
        if "$fail" in prompt and number:
            raise RuntimeError("the engine died")
        if sender.is_cancelled():
            raise InterruptedError("Request was cancelled")
        if stream:
            sender.send(_response(request, prompt, piece, 1))
    if not stream:
        before = "" if _read(request, "exclude_input_in_output", False) else prompt
        words = len(prompt.split()) if before else 0
        sender.send(_response(request, prompt, before + "".join(pieces), words + len(pieces)))


def _speak(prompt, request):
    """Return the texts of the tokens. A stop word is the end of a text."""
    words = prompt.split()
    count = max(len(words), int(_read(request, "min_tokens", 0)))
    said = list(islice(cycle(words), count)) if words else []
    pieces = [word if number == 0 else f" {word}" for number, word in enumerate(said)]
    for stop in _read_all(request, "stop_words"):
        pieces = _cut(pieces, stop.decode())
    return pieces[: int(_read(request, "max_tokens", 0))]


def _cut(pieces, stop):
    """Return the pieces up to the end of the first `stop` in the text."""
    found = "".join(pieces).find(stop) if stop else -1
    if found < 0:
        return pieces
    left = found + len(stop)
    kept = []
    for piece in pieces:
        if left <= 0:
            break
        kept.append(piece[:left])
        left -= len(piece)
    return kept


def _response(request, prompt, text, tokens):
    tensors = [pb_utils.Tensor("text_output", np.array([text.encode()], np.object_))]  # without the batch's dimension
    counts = {"num_input_tokens": len(prompt.split()), "num_output_tokens": tokens}
    for name, count in counts.items():
        if _read(request, f"return_{name}", False):
            tensors.append(pb_utils.Tensor(name, np.array([[count]], np.int32)))
    return pb_utils.InferenceResponse(tensors)


def _read(request, name, default):
    found = _read_all(request, name)
    return found[0] if found else default


def _read_all(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else list(tensor.as_numpy().flat)


def _send_error(sender, message, code):
    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)), flags=FINAL)
