"""What the command says about a key it makes."""

from services.gateway.auth.scopes import USUAL, Scope
from services.gateway.commands.keys import describe


def test_scopes_and_models_are_named() -> None:
    assert "A key of acme for every model, with the scopes read, submit." in describe("acme", USUAL, None)
    assert "for the models ocr*, echo, with the scopes admin." in describe("acme", [Scope.ADMIN], ["ocr*", "echo"])
