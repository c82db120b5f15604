"""Says what time it is: once, or in pieces if its configuration is decoupled."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
PIECES = 3


class TritonPythonModel:
    def initialize(self, args):
        self._streams = pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))

    def execute(self, requests):
        if not self._streams:
            return [_say() for _ in requests]
        for request in requests:
            sender = request.get_response_sender()
            for _ in range(PIECES):
                sender.send(_say())
            sender.send(flags=FINAL)
        return None


def _say():
    return pb_utils.InferenceResponse([pb_utils.Tensor("text", np.array([f"{time.time():.6f} ".encode()], np.object_))])
