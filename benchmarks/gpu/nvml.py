"""How busy a GPU is, as NVIDIA's driver says. It needs no package: only the library that comes with the driver.

`utilization` is the share of the time in which the GPU computed anything at all, however little.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
NAME_BYTES = 96
SAMPLE_SECONDS = 0.1  # the driver itself looks every 0.2 s or so


class Gpu(Protocol):
    """The GPU that models use."""

    name: str

    def read_utilization(self) -> float | None:
        """Return the share from 0 to 1 just now, or None if the driver does not know."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class NvmlGpu:
    """The first GPU of this machine."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle
        name = ctypes.create_string_buffer(NAME_BYTES)
        known = library.nvmlDeviceGetName(handle, name, NAME_BYTES) == SUCCESS
        self.name = name.value.decode(errors="replace") if known else "unknown"

    def read_utilization(self) -> float | None:
        found = _Utilization()
        if self._library.nvmlDeviceGetUtilizationRates(self._handle, ctypes.byref(found)) != SUCCESS:
            return None
        return float(found.gpu) / 100


def find_gpu(library: str = LIBRARY) -> NvmlGpu | None:
    """Return the first GPU, or None on a machine without one."""
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return None
    handle = ctypes.c_void_p()
    if nvml.nvmlInit_v2() != SUCCESS or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) != SUCCESS:
        return None
    return NvmlGpu(nvml, handle)


class Busy:
    """The mean share of the samples, None without any."""

    def __init__(self) -> None:
        self.samples: list[float] = []

    @property
    def mean(self) -> float | None:
        return sum(self.samples) / len(self.samples) if self.samples else None


@contextmanager
def measure_busy(gpu: Gpu | None, seconds: float = SAMPLE_SECONDS) -> Iterator[Busy]:
    """Take samples until the end of the block; none without a GPU."""
    busy, ended = Busy(), threading.Event()

    def sample() -> None:
        while gpu is not None and not ended.wait(seconds):
            if (share := gpu.read_utilization()) is not None:
                busy.samples.append(share)

    thread = threading.Thread(target=sample, name="gpu-busy", daemon=True)
    thread.start()
    try:
        yield busy
    finally:
        ended.set()
        thread.join()
