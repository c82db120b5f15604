"""Sleeps a tenth of what it is asked to, for each request by itself."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._sleep(request) for request in requests]

    def _sleep(self, request):
        slept = pb_utils.get_input_tensor_by_name(request, "ms").as_numpy() // 10
        time.sleep(int(slept.max()) / 1000)
        return pb_utils.InferenceResponse([pb_utils.Tensor("slept", slept)])
