"""JSON of 64-bit numbers."""

import pytest
from playwright.async_api import Page

from tests.unit.console.conftest import CallJs

LARGE = [9007199254740993, -9223372036854775808, 18446744073709551615]
COPY = """async (text) => {
  const { readJson, writeJson } = await import("/scripts/exact_json.js");
  return writeJson(readJson(text));
}"""


async def test_large_whole_numbers_are_exact(call_js: CallJs) -> None:
    assert await call_js("exact_json.js", "readJson", f'{{"x": {LARGE}}}') == {"x": LARGE}


@pytest.mark.parametrize(
    "text",
    [
        "[18446744073709551615,-9007199254740993,1]",
        '{"text":"[9007199254740993]","id":9007199254740993}',
        '["9007199254740993 \\" , 9007199254740995,",9007199254740997]',
        "9007199254740993",
        "[0.9991089105606079,1e+300,null,true]",
    ],
)
async def test_what_is_read_is_written_again(modules: Page, text: str) -> None:
    assert await modules.evaluate(COPY, text) == text


async def test_other_numbers_stay_numbers(call_js: CallJs) -> None:
    assert await call_js("exact_json.js", "readJson", "[1234567890123456.5, 1e30, 3]") == [1234567890123456.5, 1e30, 3]
