"""Continues prompts token by token, many at the same time."""

import threading
import time

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from measured import Measured, place, read_size
from network import Decoder
from scheduler import Full, Scheduler, Stream

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
STOP_SECONDS = 30.0


class TritonPythonModel:
    def initialize(self, args):
        self._size = size = read_size(args)
        torch.manual_seed(0)
        network, device = place(Decoder(size))
        network.allocate(size["streams"])
        for count in range(1, size["streams"] + 1):  # a GPU prepares itself for each number of streams
            network.next_tokens(list(range(count)), [[0]] * count, [0] * count)
        self._measured = Measured(args["model_instance_name"], device, network)
        self._scheduler = Scheduler(network.next_tokens, size["streams"], self._measured.spend, time.perf_counter)
        self._thread = threading.Thread(target=self._scheduler.run, daemon=True)
        self._thread.start()

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._scheduler.add(self._read(request, sender))
            except ValueError as fault:
                _fail(sender, str(fault), pb_utils.TritonError.INVALID_ARG)
            except Full as fault:
                _fail(sender, str(fault), pb_utils.TritonError.UNAVAILABLE)

    def finalize(self):
        self._scheduler.stop()
        self._thread.join(STOP_SECONDS)

    def _read(self, request, sender):
        """Return the stream that a request asks for; raise ValueError, which says what is wrong."""
        prompt = pb_utils.get_input_tensor_by_name(request, "prompt").as_numpy().ravel().tolist()
        tokens = pb_utils.get_input_tensor_by_name(request, "tokens").as_numpy().ravel().tolist()
        vocabulary, positions = self._size["vocabulary"], self._size["positions"]
        if not prompt or min(prompt) < 0 or max(prompt) >= vocabulary:
            raise ValueError(f"the input `prompt` must have tokens from 0 to {vocabulary - 1}")
        if len(tokens) != 1 or tokens[0] < 1 or len(prompt) + tokens[0] > positions:
            raise ValueError(
                f"the input `tokens` must be one number from 1 on, and at most {positions} with the prompt"
            )

        def send(token):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("token", np.array([[token]], dtype=np.int32))]))

        return Stream(prompt, tokens[0], send, lambda: sender.send(flags=FINAL), sender.is_cancelled)


def _fail(sender, message, code):
    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)), flags=FINAL)
