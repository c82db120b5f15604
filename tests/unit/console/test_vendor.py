"""Libraries of others are as npm has them."""

import hashlib
import re

from console.assets import FOLDER

ROW = re.compile(r"^\| `(?P<file>[^`]+)` \|.*\| `(?P<sha256>[0-9a-f]{64})` \|", re.MULTILINE)


def test_vendored_files_are_unchanged() -> None:
    rows = dict(ROW.findall((FOLDER / "vendor" / "README.md").read_text()))
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (FOLDER / "vendor").glob("*.js")}
    assert files == rows
