"""How long a node has for an answer."""

from common.rabbitmq.connection import QUICK_CLOSE_SECONDS
from common.rabbitmq.liveness import CALM_PINGS, FIRST_STEPS, MOST_STEPS, PING_SECONDS, STEP_SECONDS, Patience


def test_a_silent_node_is_given_up_within_five_seconds() -> None:
    assert PING_SECONDS + FIRST_STEPS * STEP_SECONDS + QUICK_CLOSE_SECONDS < 5


def test_each_node_that_is_given_up_doubles_the_patience_up_to_a_limit() -> None:
    patience, steps = Patience(), []
    for _ in range(5):
        steps.append(patience.steps)
        patience.note_silence()
    assert steps == [FIRST_STEPS, 2 * FIRST_STEPS, 4 * FIRST_STEPS, MOST_STEPS, MOST_STEPS]


def test_answers_in_a_row_reset_the_patience() -> None:
    patience = Patience()
    patience.note_silence()
    for _ in range(CALM_PINGS - 1):
        patience.note_answer()
    patience.note_silence()  # not calm yet
    assert patience.steps == 4 * FIRST_STEPS
    for _ in range(CALM_PINGS):
        patience.note_answer()
    assert patience.steps == FIRST_STEPS
