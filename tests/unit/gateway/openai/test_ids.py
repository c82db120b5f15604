"""OpenAI's ids are those of jobs, batches and files with other prefixes."""

import pytest

from common import ids
from services.gateway.openai.ids import Prefix, encode, parse


@pytest.mark.parametrize("prefix", Prefix)
def test_an_id_is_read_back(prefix: Prefix) -> None:
    value = ids.new()
    assert parse(prefix, encode(prefix, value)) == value
    assert encode(prefix, value).startswith(f"{prefix}_")


def test_an_answer_has_the_letters_of_its_job() -> None:
    value = ids.new()
    assert encode(Prefix.CHAT, value).removeprefix("chatcmpl_") == ids.encode(ids.Kind.JOB, value).removeprefix("job_")
    assert encode(Prefix.FILE, value) == ids.encode(ids.Kind.FILE, value)


@pytest.mark.parametrize("text", ["", "chatcmpl", "chatcmpl_", "cmpl_01m8hscxvvfz4vjz9xty5ajyby", "chatcmpl_zz", "_"])
def test_other_text_is_no_id(text: str) -> None:
    assert parse(Prefix.CHAT, text) is None
