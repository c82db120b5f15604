"""What the command says about a key it makes, and what it refuses."""

import pytest

from services.gateway.auth.scopes import USUAL, Scope
from services.gateway.commands.keys import describe, parse


def test_scopes_and_models_are_named() -> None:
    assert "A key of acme for every model, with the scopes read, submit." in describe("acme", USUAL, None)
    assert "for the models ocr*, echo, with the scopes admin." in describe("acme", [Scope.ADMIN], ["ocr*", "echo"])


@pytest.mark.parametrize(("given", "meant"), [("upper,echo", "upper echo"), ("upper,", "upper")])
def test_a_comma_between_patterns_is_refused_with_what_to_write(
    given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["create", "acme", "--model", "ocr*", given])
    assert f"argument --model: '{given}' has a comma; put spaces between patterns: {meant}\n" in capsys.readouterr().err
