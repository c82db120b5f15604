"""Decides what happens to a job after a failed attempt. Pure."""

import msgspec

from common.jobs import Failure

# A job that runs while Triton goes away gets its attempt back, but only this often: it may be what crashes the server.
# After that it is suspected poison, and only one such job runs at a time. The index jobs_one_suspected_poison uses it.
MAX_INTERRUPTIONS = 3
REFUSED_DELAY_SECONDS = 0.25


class Interrupted(msgspec.Struct, frozen=True):
    """Triton or the model went away during the attempt. The job is probably not the cause."""

    failure: Failure


class Refused(msgspec.Struct, frozen=True):
    """Triton did not accept the attempt: it was away or a queue was full. The job cannot be the cause."""

    failure: Failure


class Attempted(msgspec.Struct, frozen=True):
    """The attempt itself failed."""

    failure: Failure


Outcome = Interrupted | Refused | Attempted


class Policy(msgspec.Struct, frozen=True):
    """A job's counts, including this attempt, and its `retry`. Delays are in seconds."""

    attempt: int
    max_attempts: int
    interruptions: int
    initial_delay: float
    max_delay: float
    fallback_model: str | None


class GiveBack(msgspec.Struct, frozen=True):
    """Queue the job again, due after `delay` seconds. The attempt does not count."""

    delay: float


class Again(msgspec.Struct, frozen=True):
    """Queue the job again, due after `delay` seconds."""

    delay: float


class FallBack(msgspec.Struct, frozen=True):
    """Queue the job again at once, for one attempt on another model."""

    model: str


class Fail(msgspec.Struct, frozen=True):
    """Fail the job for good."""


def decide(policy: Policy, outcome: Outcome, chance: float) -> GiveBack | Again | FallBack | Fail:
    """Return the decision. `chance` is a random number in [0, 1) for full jitter, which spreads retries over time."""
    if isinstance(outcome, Refused):
        return GiveBack(REFUSED_DELAY_SECONDS * (1 + chance))
    if isinstance(outcome, Interrupted) and policy.interruptions < MAX_INTERRUPTIONS:
        return GiveBack(0.0)
    if outcome.failure.retryable and policy.attempt < policy.max_attempts:
        ceiling = min(policy.max_delay, policy.initial_delay * 2.0 ** min(policy.attempt - 1, 60))
        return Again(ceiling * chance)
    if policy.fallback_model is not None:
        return FallBack(policy.fallback_model)
    return Fail()
