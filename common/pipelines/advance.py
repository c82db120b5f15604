"""Which steps of a run begin, and which elements get a job, after others have succeeded. Pure."""

from collections.abc import Collection, Mapping

import msgspec

from common.pipelines.run_state import Place, RunState, StepState, StepStatus

WINDOW = 200  # elements of one step that have a job which has not ended: enough for all slots, and few rows


def note_success(state: RunState, step: str, inference_ms: float) -> RunState:
    """Return the state after one more element of a step has succeeded."""
    found = state[step]
    done = found.done + 1
    status = StepStatus.SUCCEEDED if done == found.total else found.status
    inference_ms += found.inference_ms
    return {**state, step: msgspec.structs.replace(found, done=done, status=status, inference_ms=inference_ms)}


def list_ready(state: RunState, needs: Mapping[str, Collection[str]]) -> list[str]:
    """Return the steps that may begin: they wait, and each step that they need has succeeded."""
    return [
        step
        for step, found in state.items()
        if found.status is StepStatus.WAITING and all(is_over(state[other]) for other in needs[step])
    ]


def start(state: RunState, step: str, total: int) -> RunState:
    """Return the state after a step has begun. A step without elements has succeeded at once."""
    status = StepStatus.RUNNING if total else StepStatus.SUCCEEDED
    return {**state, step: StepState(status=status, total=total)}


def list_wanted(step: StepState) -> range:
    """Return the elements that get a job now. They come in bites of half a window at least, but for the last ones."""
    if step.status is not StepStatus.RUNNING or step.in_flight > WINDOW // 2:
        return range(0)
    return range(step.made, min(step.total, step.done + WINDOW))


def note_made(state: RunState, step: str, made: int, place: Place) -> RunState:
    """Return the state after the first `made` elements of a step have jobs, and the place of the next one."""
    return {**state, step: msgspec.structs.replace(state[step], made=made, place=place)}


def has_succeeded(state: RunState) -> bool:
    """Return whether every step has succeeded."""
    return all(is_over(step) for step in state.values())


def is_over(step: StepState) -> bool:
    """Return whether a step has succeeded."""
    return step.status is StepStatus.SUCCEEDED
