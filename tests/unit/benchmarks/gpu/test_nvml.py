"""How busy the GPU is, by a driver that is not here."""

import ctypes
import threading
from typing import Any, cast

import pytest

from benchmarks.gpu.nvml import NvmlGpu, find_gpu, measure_busy

UNSUPPORTED = 3
DEADLINE_SECONDS = 10.0


class Driver:
    """The library, as far as it is called."""

    def __init__(self, code: int = 0) -> None:
        self.code = code

    def nvmlDeviceGetName(self, _handle: object, name: Any, length: int) -> int:  # noqa: N802 - a name of NVML
        assert length > len(b"NVIDIA H100")
        name.value = b"NVIDIA H100"
        return self.code

    def nvmlDeviceGetUtilizationRates(self, _handle: object, found: Any) -> int:  # noqa: N802 - a name of NVML
        found._obj.gpu, found._obj.memory = 73, 20
        return self.code


class Sampled:
    """A GPU that is asked until it has said enough."""

    name = "sampled"

    def __init__(self, *shares: float | None) -> None:
        self._shares = iter(shares)
        self.done = threading.Event()

    def read_utilization(self) -> float | None:
        try:
            return next(self._shares)
        except StopIteration:
            self.done.set()
            return None


def open_gpu(code: int = 0) -> NvmlGpu:
    return NvmlGpu(cast("ctypes.CDLL", Driver(code)), ctypes.c_void_p())


def test_a_machine_without_the_library_has_no_gpu() -> None:
    assert find_gpu("libnvidia-ml-that-is-not-there.so.1") is None


def test_the_share_is_that_of_the_gpu_not_of_its_memory() -> None:
    gpu = open_gpu()
    assert (gpu.name, gpu.read_utilization()) == ("NVIDIA H100", 0.73)


def test_what_the_driver_does_not_say_is_not_made_up() -> None:
    gpu = open_gpu(UNSUPPORTED)
    assert (gpu.name, gpu.read_utilization()) == ("unknown", None)


def test_the_mean_is_that_of_all_samples() -> None:
    gpu = Sampled(0.5, None, 1.0)
    with measure_busy(gpu, 0.001) as busy:
        assert gpu.done.wait(DEADLINE_SECONDS)
    assert busy.mean == pytest.approx(0.75)


def test_without_a_gpu_there_is_no_mean() -> None:
    with measure_busy(None, 0.001) as busy:
        pass
    assert busy.mean is None
