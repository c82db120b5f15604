"""The keys command says what is wrong with its arguments. See also tests/unit/gateway/commands/test_keys.py."""

import pytest

from services.gateway.commands import keys


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("create", "t", "--scope", "write"), "invalid choice: 'write'"),
        (("create", "t", "--rate-limit", "-1"), "'-1' is not a whole number from 0 to 10000"),
        (("create", "t", "--expires-at", "2020-01-01T00:00:00Z"), "is in the past"),
        (("create", "x" * 101), "is not 1 to 100 printable characters"),
    ],
)
def test_a_wrong_argument_is_named(arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        keys.parse(arguments)
    assert (ended.value.code, text in capsys.readouterr().err) == (2, True)
