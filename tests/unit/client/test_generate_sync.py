"""The synchronous half of the client is what the generator makes of the asynchronous one."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

CLIENT = Path(__file__).parents[3] / "client"


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_sync", CLIENT / "generate_sync.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_synchronous_half_is_current(generator: ModuleType) -> None:
    found = {path: path.read_text() for path in (CLIENT / "charonia" / "_sync").glob("*.py")}
    by_hand = {path: text for path, text in found.items() if path.name in generator.BY_HAND}
    assert found == generator.generate() | by_hand, "run `python client/generate_sync.py`"


def test_what_differs_between_the_halves_is_written_by_hand() -> None:
    for path in (CLIENT / "charonia" / "_sync").glob("*.py"):
        assert "asyncio" not in path.read_text()
        assert "await" not in path.read_text()
