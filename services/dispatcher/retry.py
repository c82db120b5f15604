"""What becomes of a job whose attempt failed. Pure."""

import msgspec

from common.jobs import Failure

# A job in flight when Triton goes away gets its attempt back, but only so often: it might be what kills the server.
# From then on it runs alone among its like (claim_jobs): those that only were there with it lose no attempt by it.
# The index jobs_one_suspect has the same number.
MAX_INTERRUPTIONS = 3
REFUSED_SECONDS = 0.25


class Interrupted(msgspec.Struct, frozen=True):
    """Triton, or the model, went away under the attempt: most likely not the job's doing."""

    failure: Failure


class Refused(msgspec.Struct, frozen=True):
    """Triton did not take the attempt (it or the model was away, or a queue full): the job can't be the reason."""

    failure: Failure


class Attempted(msgspec.Struct, frozen=True):
    """The attempt failed by itself."""

    failure: Failure


Outcome = Interrupted | Refused | Attempted


class Policy(msgspec.Struct, frozen=True):
    """A job's counts at the time, this attempt included, and its `retry` (delays in seconds)."""

    attempt: int
    max_attempts: int
    interruptions: int
    initial_delay: float
    max_delay: float
    fallback_model: str | None


class GiveBack(msgspec.Struct, frozen=True):
    """Queue it again as if this attempt had not been, due after `delay` seconds."""

    delay: float


class Again(msgspec.Struct, frozen=True):
    """Queue it again, due after `delay` seconds."""

    delay: float


class FallBack(msgspec.Struct, frozen=True):
    """Queue it again at once for one attempt on another model."""

    model: str


class Fail(msgspec.Struct, frozen=True):
    """It has failed for good."""


def decide(policy: Policy, outcome: Outcome, chance: float) -> GiveBack | Again | FallBack | Fail:
    """`chance` is a random number in [0, 1): full jitter, so that jobs that failed together do not return together."""
    if isinstance(outcome, Refused):
        return GiveBack(REFUSED_SECONDS * (1 + chance))
    if isinstance(outcome, Interrupted) and policy.interruptions < MAX_INTERRUPTIONS:
        return GiveBack(0.0)
    if outcome.failure.retryable and policy.attempt < policy.max_attempts:
        ceiling = min(policy.max_delay, policy.initial_delay * 2.0 ** min(policy.attempt - 1, 60))
        return Again(ceiling * chance)
    if policy.fallback_model is not None:
        return FallBack(policy.fallback_model)
    return Fail()
