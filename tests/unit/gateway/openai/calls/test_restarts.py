"""A stream whose job begins again sends nothing twice."""

import pytest

from services.gateway.openai.calls.restarts import Diverged, SentText


def test_a_new_attempt_goes_on_where_the_first_ended() -> None:
    sent = SentText()
    assert [sent.add("one "), sent.add("tw")] == ["one ", "tw"]
    sent.begin_again()
    assert [sent.add("one"), sent.add(" two th"), sent.add("ree")] == ["", "o th", "ree"]
    sent.begin_again()
    assert sent.add("one two three four") == " four"
    sent.end()


@pytest.mark.parametrize("again", ["one TW", "ane two", "one tW"])
def test_another_text_is_noticed(again: str) -> None:
    sent = SentText()
    sent.add("one tw")
    sent.begin_again()
    with pytest.raises(Diverged):
        sent.add(again)


def test_a_shorter_text_is_noticed_at_its_end() -> None:
    sent = SentText()
    sent.add("one two")
    sent.begin_again()
    sent.add("one")
    with pytest.raises(Diverged):
        sent.end()


def test_characters_of_several_bytes_are_not_cut() -> None:
    sent = SentText()
    sent.add("a€")
    sent.begin_again()
    assert sent.add("a") + sent.add("€€") == "€"
