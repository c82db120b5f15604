"""What both models do beside their networks: choose the device, and write on Triton's metrics port what they did."""

import json

import torch
import triton_python_backend_utils as pb_utils


def read_size(args):
    """Return the size that the benchmark has written into the configuration."""
    return json.loads(json.loads(args["model_config"])["parameters"]["size"]["string_value"])


def place(network):
    """Put the network on the GPU, if there is one; return it with its device."""
    if torch.cuda.is_available():
        device, kind = torch.device("cuda"), torch.float16
    else:
        device, kind = torch.device("cpu"), torch.float32
        torch.set_num_threads(1)  # others would only take what the stack needs
    return network.eval().to(device, kind), device


class Measured:
    """Two metrics of an instance: what it is, and the seconds that its network has computed."""

    def __init__(self, instance, device, network):
        name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
        parameters = str(sum(each.numel() for each in network.parameters()))
        labels = {"instance": instance, "device": name, "torch": torch.__version__, "parameters": parameters}
        kinds = pb_utils.MetricFamily
        self._families = (  # kept, because their metrics end with them
            kinds(name="benchmark_model", description="What a model of the benchmark is", kind=kinds.GAUGE),
            kinds(name="benchmark_compute_seconds_total", description="Seconds in the network", kind=kinds.COUNTER),
        )
        self._model = self._families[0].Metric(labels=labels)
        self._model.set(1)
        self._seconds = self._families[1].Metric(labels={"instance": instance})

    def spend(self, seconds):
        self._seconds.increment(seconds)
