import re
from pathlib import Path

import pytest

from deploy.local import helm, triton_venv

FILES = pytest.mark.parametrize("file", [triton_venv.REQUIREMENTS, helm.REQUIREMENTS], ids=lambda file: file.stem)


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
