"""The console says what to do about each error of a job."""

import re

from console.assets import FOLDER
from deploy.local.settings import ROOT

ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
ENTRY = re.compile(r"^  (\w+): ", re.MULTILINE)


def test_each_error_has_an_advice() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    codes = ROW.findall(page.split("<!-- generated: job-errors -->")[1].split("<!-- end -->")[0])
    table = (FOLDER / "scripts" / "advice.js").read_text().split("const ADVICE = {")[1].split("};")[0]
    assert sorted(ENTRY.findall(table)) == sorted(codes)
