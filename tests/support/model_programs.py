"""Loads files of the benchmark's models: Triton runs them, so they are in no package."""

import importlib.util
from pathlib import Path
from types import ModuleType

from benchmarks.gpu.repository import MODELS


def load(path: str) -> ModuleType:
    """Return a file of the models' folder as a module."""
    file: Path = MODELS / path
    spec = importlib.util.spec_from_file_location(f"gpu_models_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
