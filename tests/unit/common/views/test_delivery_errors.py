"""Every error of a delivery has a message."""

from common.views.delivery_errors import MESSAGES, explain_attempt
from common.views.job_parts import AttemptFailure
from services.notifier.delivery_attempts.result import AttemptError


def test_every_error_of_the_notifier_has_a_message() -> None:
    assert {*MESSAGES, AttemptError.HTTP_STATUS} == set(AttemptError)


def test_a_message_says_what_the_receiver_answered() -> None:
    assert explain_attempt("http_status", 503) == AttemptFailure("http_status", "the receiver answered 503")


def test_an_error_of_a_newer_notifier_is_shown() -> None:
    assert explain_attempt("quic_failed", None) == AttemptFailure("quic_failed", "quic failed")
