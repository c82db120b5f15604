"""Keys in a list."""

from datetime import UTC, datetime, timedelta

from charonia.admin_schemas import KeyData
from charonia.cli.commands.keys import show_row

PAST = datetime.now(UTC) - timedelta(seconds=1)


def make_key(models: list[str] | None, expires_at: datetime | None) -> KeyData:
    return KeyData(
        id="key_1",
        name="ci",
        scopes=["submit"],
        models=models,
        rate_limit=None,
        created_at=PAST,
        expires_at=expires_at,
        last_used_at=None,
    )


def test_a_row_has_the_models_of_the_key_and_whether_it_expired() -> None:
    assert show_row(make_key(["ocr*", "echo"], PAST)) == ("key_1", "ci", "submit", "ocr*, echo", "expired", "–")
    assert show_row(make_key(None, None)) == ("key_1", "ci", "submit", "all", "–", "–")
    assert show_row(make_key([], None))[3] == "none"
