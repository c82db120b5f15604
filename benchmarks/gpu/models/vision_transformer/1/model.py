"""Labels images. A batch is one call of the network."""

import time

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from images import InvalidImage, read_image
from measured import Measured, place, read_size
from network import VisionTransformer


class TritonPythonModel:
    def initialize(self, args):
        size = read_size(args)
        torch.manual_seed(0)
        self._side = size["side"]
        self._network, self._device = place(VisionTransformer(size))
        for count in range(1, size["batch"] + 1):
            self._run([bytes(3 * self._side**2)] * count)  # a GPU prepares itself for each size of a batch
        self._measured = Measured(args["model_instance_name"], self._device, self._network)

    def execute(self, requests):
        images, faults = [], {}
        for index, request in enumerate(requests):
            try:
                images.append(read_image(pb_utils.get_input_tensor_by_name(request, "image").as_numpy(), self._side))
            except InvalidImage as fault:
                faults[index] = str(fault)
        began = time.perf_counter()
        labels = iter(self._run(images) if images else ())
        self._measured.spend(time.perf_counter() - began)
        return [_fail(faults[index]) if index in faults else _answer(next(labels)) for index in range(len(requests))]

    def _run(self, images):
        """Return the label of each image. To read the labels waits for the GPU."""
        pixels = np.frombuffer(bytearray(b"".join(images)), dtype=np.uint8).reshape(-1, self._side, self._side, 3)
        with torch.inference_mode():
            return self._network(torch.from_numpy(pixels).to(self._device)).argmax(dim=1).tolist()


def _answer(label):
    return pb_utils.InferenceResponse([pb_utils.Tensor("label", np.array([[label]], dtype=np.int32))])


def _fail(message):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG))
