import re

from deploy.local.triton_venv import REQUIREMENTS


def test_every_requirement_is_exact_and_hashed() -> None:
    joined = REQUIREMENTS.read_text().replace("\\\n", "")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line


def test_no_address_is_named() -> None:
    assert not re.search(r"://|index|find-links", REQUIREMENTS.read_text())
