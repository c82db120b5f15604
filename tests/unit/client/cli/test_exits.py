"""A wait that was long enough has a code of its own."""

import pytest
from charonia import ConnectionFailed, DeadlineExceeded
from charonia.cli.exits import UNREACHABLE, WAITED, find_exit_code, limit_wait
from charonia.errors import CharoniaError


@pytest.mark.parametrize(
    ("timeout", "error", "code"),
    [
        (0.0, DeadlineExceeded, WAITED),
        (60.0, DeadlineExceeded, UNREACHABLE),  # a call that the gateway did not answer
        (0.0, ConnectionFailed, UNREACHABLE),
    ],
)
def test_a_wait_that_is_over_is_not_an_unreachable_gateway(
    timeout: float, error: type[CharoniaError], code: int
) -> None:
    with pytest.raises(error, match="why") as caught, limit_wait(timeout):
        raise error("why")
    assert find_exit_code(caught.value) == code
