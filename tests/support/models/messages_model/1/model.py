"""Says the last message word by word; a tool that is offered is called with the text. See ../../README.md.

`$slow` in the text makes each word take 0.1 s. `$fail` fails the attempt after the first word. `$split` says a
character of three bytes in two pieces. `$request` says the request itself.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
AT_ONCE = 32
SLOW_SECONDS = 0.1
EURO = "€".encode()


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
        code = pb_utils.TritonError.CANCELLED if isinstance(error, InterruptedError) else pb_utils.TritonError.INTERNAL
        sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code)), flags=FINAL)


def _answer(request, sender):
    raw = pb_utils.get_input_tensor_by_name(request, "request").as_numpy()[0]
    asked = json.loads(raw)
    content = asked["messages"][-1]["content"]
    said = content if isinstance(content, str) else "".join(part.get("text", "an image") for part in content)
    if asked.get("tools"):
        _call_tool(asked["tools"][0]["function"]["name"], said, sender)
        return
    pieces = _list_pieces(said, raw)
    most = asked.get("max_tokens", len(pieces))
    for number, piece in enumerate(pieces[:most]):
        time.sleep(SLOW_SECONDS if "$slow" in said else 0)
        if "$fail" in said and number:
            raise RuntimeError("the engine died")
        if sender.is_cancelled():
            raise InterruptedError("cancelled")
        sender.send(_response(text=piece))
    usage = {"prompt_tokens": len(said.split()), "completion_tokens": min(most, len(pieces))}
    sender.send(_response(text=b"", finish_reason="length" if most < len(pieces) else "stop", usage=json.dumps(usage)))


def _list_pieces(said, raw):
    if "$request" in said:
        return [raw]
    if "$split" in said:
        return [EURO[:1], EURO[1:]]
    return [(" " if number else "").encode() + word.encode() for number, word in enumerate(said.split())]


def _call_tool(name, said, sender):
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps({"text": said})}}
    sender.send(_response(text=b"", tool_calls=json.dumps([call])))


def _response(**outputs):
    tensors = [
        pb_utils.Tensor(name, np.array([value if isinstance(value, bytes) else value.encode()], np.object_))
        for name, value in outputs.items()
    ]
    return pb_utils.InferenceResponse(tensors)
