"""How far a run is. Pure."""

from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec


class StepStatus(StrEnum):
    """The state of a step of a run."""

    WAITING = "waiting"  # for steps that it refers to
    RUNNING = "running"  # its jobs wait or run
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"  # not begun, or stopped, because the run has ended


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where the next element begins in the tensor that a step divides: in a part of it, which one job has made."""

    element: int = 0  # its number
    part: int = 0  # the number of that part: an element of the step that makes them; 0 if there is only one
    taken: int = 0  # elements of the part that come before
    offset: int = 0  # their bytes


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a run. A step without `for_each` has one element."""

    status: StepStatus = StepStatus.WAITING
    total: int = 0  # elements; 0 while it waits
    made: int = 0  # elements that have a job: the first ones
    done: int = 0  # elements that have succeeded
    inference_ms: float = 0.0  # of those that succeeded since the run began, or was retried: usage counts each end
    place: Place = Place()  # of the first element without a job

    @property
    def in_flight(self) -> int:
        return self.made - self.done


RunState = Mapping[str, StepState]
_decoder = msgspec.json.Decoder(dict[str, StepState])


def encode(state: RunState) -> bytes:
    """Return the JSON of a state."""
    return msgspec.json.encode(state)


def decode(body: bytes) -> RunState:
    """Return the state in JSON. Raises msgspec.ValidationError for one of a later release."""
    return _decoder.decode(body)


def sum_inference(state: RunState) -> float | None:
    """Return how long the models of a run worked since it began, or was retried, in ms. None: none has succeeded."""
    return sum(step.inference_ms for step in state.values()) or None


def begin(steps: Collection[str]) -> RunState:
    """Return the state of a run whose steps all wait."""
    return {step: StepState() for step in steps}


def resume(state: RunState, jobs: Mapping[str, tuple[int, int]]) -> RunState:
    """Return the state in which an ended run goes on. `jobs` are how many each step has, and how many have succeeded.

    A job may have succeeded after the run had ended. Every other job of the steps must be queued again.
    """
    return {name: resume_step(step, *jobs.get(name, (0, 0))) for name, step in state.items()}


def resume_step(step: StepState, made: int, done: int) -> StepState:
    if step.status is StepStatus.SUCCEEDED:
        return msgspec.structs.replace(step, inference_ms=0.0)
    if not step.total:
        return StepState()
    status = StepStatus.SUCCEEDED if done == step.total else StepStatus.RUNNING
    return StepState(status=status, total=step.total, made=made, done=done, place=step.place)


def stop(state: RunState, failed: str | None = None) -> RunState:
    """Return the state of a run that has ended before all steps have. One step may have `failed`."""

    def stopped(name: str, step: StepState) -> StepState:
        if name == failed:
            return msgspec.structs.replace(step, status=StepStatus.FAILED)
        if step.status in (StepStatus.WAITING, StepStatus.RUNNING):
            return msgspec.structs.replace(step, status=StepStatus.CANCELED)
        return step

    return {name: stopped(name, step) for name, step in state.items()}
