"""The code in the guides works."""

import re
import time
from pathlib import Path
from typing import Literal

import pytest

from common.security import webhook_signatures

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks/README.md",
    ROOT / "benchmarks/method.md",
    ROOT / "deploy/models/README.md",
    ROOT / "tests/mutants/README.md",
    *sorted(DOCS.rglob("*.md")),
]
PATH = re.compile(r"`((?:services|common|deploy|tests|benchmarks|docs)/[\w./-]+)`")
COMMAND = re.compile(r"python -m ((?:services|common|deploy|tests|benchmarks)\b[\w.]*)")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def find_block(beginning: str) -> str:
    """Return the one code block of the docs that has this text."""
    blocks: list[str] = [
        block for page in DOCS.rglob("*.md") for block in BLOCK.findall(page.read_text()) if beginning in block
    ]
    assert len(blocks) == 1, beginning
    return blocks[0]


@pytest.mark.parametrize(("name", "signing_kind"), [("is_genuine", "hmac"), ("is_genuine_ed25519", "ed25519")])
def test_a_receiver_can_copy_the_verification(name: str, signing_kind: Literal["hmac", "ed25519"]) -> None:
    copied: dict[str, object] = {}
    exec(find_block(f"def {name}("), copied)  # noqa: S102 -- that is what its readers do
    is_genuine = copied[name]
    assert callable(is_genuine)
    secret, other = webhook_signatures.new_secret(signing_kind), webhook_signatures.new_secret(signing_kind)
    known, unknown = (secret, other) if signing_kind == "hmac" else map(webhook_signatures.public_key, (secret, other))
    body, now = '{"größe": 1}'.encode(), int(time.time())

    def sign(at: int) -> dict[str, str]:
        signature = webhook_signatures.sign([webhook_signatures.new_secret(signing_kind), secret], "dlv_1", at, body)
        return {"webhook-id": "dlv_1", "webhook-timestamp": str(at), "webhook-signature": signature}

    assert is_genuine(known, sign(now), body)
    assert not is_genuine(known, sign(now), body + b" ")
    assert not is_genuine(unknown, sign(now), body)
    assert not is_genuine(known, sign(now - 1000), body)
    for forged in forge(sign(now)):
        assert not is_genuine(known, forged, body), forged


def forge(headers: dict[str, str]) -> list[dict[str, str]]:
    """Return headers that anybody may send in place of these."""
    missing = [{name: value for name, value in headers.items() if name != left_out} for left_out in headers]
    kind = headers["webhook-signature"].partition(",")[0]
    signatures = ["", "v1", f"{kind},", f"{kind},AAAA", f"{kind},\u00e4", f"{kind},A", "v2,AAAA"]
    times = ["", "x", "-1", "9" * 5000, "\u00b2"]
    wrong = [headers | {"webhook-signature": each} for each in signatures]
    return [{}, *missing, *wrong, *(headers | {"webhook-timestamp": each} for each in times)]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_files_and_commands_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    named = {ROOT / path for path in PATH.findall(text) if "NNNN" not in path}
    commands = {ROOT / module.replace(".", "/") for module in COMMAND.findall(text)}
    assert [path for path in named if not path.exists()] == []
    assert [
        path for path in commands if not (path.with_suffix(".py").exists() or (path / "__main__.py").exists())
    ] == []
