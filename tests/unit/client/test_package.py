"""The package has the version of the services, and little to install."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import charonia

from common import VERSION

CLIENT = Path(__file__).parents[3] / "client"
REFERENCE = CLIENT.parent / "docs" / "reference" / "python-client.md"
HEAVY = ("asyncio", "numpy", "cryptography", "opentelemetry", "asyncpg", "services", "common")


def test_client_and_services_have_one_version() -> None:
    assert charonia.__version__ == VERSION


def test_only_httpx_and_msgspec_are_needed() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    assert [each.split(">")[0] for each in project["dependencies"]] == ["httpx", "msgspec"]
    assert project["requires-python"] == ">=3.10"


def test_the_import_loads_nothing_heavy() -> None:
    code = f"import charonia, sys; print([each for each in {HEAVY!r} if each in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=CLIENT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_exists() -> None:
    assert [name for name in charonia.__all__ if not hasattr(charonia, name)] == []


def test_every_public_name_is_in_the_reference() -> None:
    listed = re.findall(r"^(?:## | *- `)(\w+)", REFERENCE.read_text(), re.MULTILINE)
    assert set(charonia.__all__) - set(listed) == {"AsyncCharonia", "AsyncJob"}


def test_every_type_that_the_reference_names_is_public() -> None:
    modules = [charonia.schemas, charonia.admin_schemas, charonia.model_schemas, charonia.pipeline_schemas]
    modules += [charonia.requests, charonia.references, charonia.events, charonia.inputs, charonia.results]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    types = {each.__name__ for each in found if each.__module__.startswith("charonia.")}
    named = {name for block in read_blocks() for name in re.findall(r"\b[A-Z]\w+", block)}
    assert (named & types) - set(charonia.__all__) == set()


def test_every_default_in_the_reference_is_a_value() -> None:
    named = {name for block in read_blocks() for name in re.findall(r" = ([A-Za-z_]\w*)", block)}
    assert named <= {"None", "True", "False"}


def read_blocks() -> list[str]:
    """Return the code in the reference: fields and signatures."""
    return re.findall(r"^```python\n(.*?)^```", REFERENCE.read_text(), re.MULTILINE | re.DOTALL)
