"""A stub of Triton's vLLM backend, which says the words of its prompt. See ../../README.md."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
AT_ONCE = 32  # the backend takes all requests at once
MAX_TOKENS = 16  # vLLM's default
SLOW_SECONDS = 0.1
# Of vLLM's SamplingParams, and the backend's own lora_name. One that vLLM does not know is an error.
PARAMETERS = {
    *("allowed_token_ids", "bad_words", "detokenize", "extra_args", "frequency_penalty", "ignore_eos"),
    *("include_stop_str_in_output", "logit_bias", "logprobs", "lora_name", "max_tokens", "min_p", "min_tokens", "n"),
    *("presence_penalty", "prompt_logprobs", "repetition_penalty", "seed", "skip_special_tokens"),
    *("spaces_between_special_tokens", "stop", "stop_token_ids", "structured_outputs", "temperature", "top_k", "top_p"),
}


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
    except Exception as error:
        _send_error(sender, f"Error generating stream: {error}", pb_utils.TritonError.INTERNAL)


def _answer(request, sender):
    prompt = _read(request, "text_input", b"").decode()
    stream = bool(_read(request, "stream", False))
    excluded = _read(request, "exclude_input_in_output", None)
    if stream and excluded is not None and not excluded:
        raise ValueError("When streaming, `exclude_input_in_output` = False is not allowed.")
    parameters = json.loads(_read(request, "sampling_parameters", None) or request.parameters())
    if unknown := sorted(parameters.keys() - PARAMETERS):
        raise ValueError(f"Unexpected keyword argument '{unknown[0]}'")
    pieces, reason = _speak(prompt, parameters)
    outputs = _Outputs(request, int(parameters.get("n", 1)), len(prompt.split()))
    for number, piece in enumerate(pieces):
        time.sleep(SLOW_SECONDS if "$slow" in prompt else 0)
        if "$fail" in prompt and number:
            raise RuntimeError("the engine died")
        if sender.is_cancelled():
            _send_error(sender, "Request was cancelled", pb_utils.TritonError.CANCELLED)
            return
        last = number == len(pieces) - 1
        if stream:
            sender.send(outputs.response(piece, reason if last else None, 1), flags=FINAL if last else 0)
    if not stream:
        before = "" if excluded else prompt
        sender.send(outputs.response(before + "".join(pieces), reason, len(pieces)), flags=FINAL)


def _speak(prompt, parameters):
    """Return the texts of the tokens, and why they end. The token that ends a text by itself has none."""
    words = prompt.split()
    most = int(parameters.get("max_tokens", MAX_TOKENS))
    count = max(len(words), int(parameters.get("min_tokens", 0)))
    said = list(islice(cycle(words), count)) if words else []
    pieces = [word if number == 0 else f" {word}" for number, word in enumerate(said)]
    stops = parameters.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        pieces = _cut(pieces, stop)
    if len(pieces) >= most:
        return pieces[:most], "length"
    return [*pieces, ""], "stop"


def _cut(pieces, stop):
    """Return the pieces up to where the text has `stop`."""
    left = "".join(pieces).find(stop)
    if left < 0:
        return pieces
    kept = []
    for piece in pieces:
        if left <= 0:
            break
        kept.append(piece[:left])
        left -= len(piece)
    return kept


class _Outputs:
    """Makes responses with the outputs that a request asks for."""

    def __init__(self, request, texts, input_tokens):
        self._request = request
        self._texts = texts
        self._input_tokens = input_tokens
        self._tokens = 0

    def response(self, text, reason, tokens):
        self._tokens += tokens
        reasons = np.array([str(reason).encode()] * self._texts, np.object_)
        more = {
            "finish_reason": reasons,
            "cumulative_logprob": np.full(self._texts, -self._tokens, np.float32),
            "logprobs": np.array([b"null"] * self._texts, np.object_),
            "num_input_tokens": np.asarray(self._input_tokens, np.uint32),  # without a dimension, as the backend does
            "num_output_tokens": np.full(self._texts, tokens, np.uint32),
        }
        asked = {name: value for name, value in more.items() if _read(self._request, f"return_{name}", False)}
        texts = np.array([text.encode()] * self._texts, np.object_)
        tensors = {"text_output": texts} | asked
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in tensors.items()])


def _read(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().flat[0]


def _send_error(sender, message, code):
    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)), flags=FINAL)
