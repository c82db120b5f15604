"""What a model's configuration says about reuse, and what it means for a job."""

import pytest
from msgspec import UNSET, UnsetType

from common.job_options import Reuse
from common.reuse.choice import choose_max_age, read_default


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("0.5", 0.5), ("0", 0), ("31536000", 31_536_000)]
    + [(wrong, 0) for wrong in ("", "an hour", "-1", "nan", "inf", "31536001", "1h")],
)
def test_a_setting_that_cannot_be_read_refuses_reuse(text: str, seconds: float) -> None:
    """A result that is too old costs more than an inference."""
    assert read_default({"charonia.reuse_seconds": text}) == seconds
    assert read_default({"charonia.other": text}) is None


@pytest.mark.parametrize(
    ("wanted", "setting", "chosen"),
    [
        (UNSET, None, None),
        (UNSET, "60", 60),
        (UNSET, "0", None),
        (None, "60", None),
        (Reuse(5), None, 5),
        (Reuse(5), "60", 5),
        (Reuse(0), "60", 0),
        (Reuse(5), "0", None),
        (Reuse(5), "wrong", None),
    ],
)
def test_a_client_chooses_unless_the_model_refuses(
    wanted: Reuse | UnsetType | None, setting: str | None, chosen: float | None
) -> None:
    assert choose_max_age(wanted, {} if setting is None else {"charonia.reuse_seconds": setting}) == chosen
