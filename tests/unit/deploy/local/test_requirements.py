import json
import re
from pathlib import Path

import pytest

from deploy.local import helm, language_models, npm_packages, triton_venv

FILES = pytest.mark.parametrize(
    "file",
    [triton_venv.REQUIREMENTS, language_models.REQUIREMENTS, helm.REQUIREMENTS],
    ids=lambda file: file.stem,
)


@FILES
def test_every_requirement_is_exact_and_hashed(file: Path) -> None:
    joined = file.read_text().replace("\\\n", "")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line


@FILES
def test_no_address_is_named(file: Path) -> None:
    assert not re.search(r"://|index|find-links", file.read_text())


def test_every_npm_package_is_exact_and_hashed_and_no_address_is_named() -> None:
    locked = json.loads(npm_packages.LOCK.read_text())["packages"]
    packages = [each for path, each in locked.items() if path]
    assert packages
    for each in packages:
        assert re.fullmatch(r"[0-9.]+", each["version"]), each
        assert each["integrity"].startswith("sha512-"), each
        assert "resolved" not in each, each
