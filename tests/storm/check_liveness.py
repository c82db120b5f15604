"""Compares how the stack was before the first fault with how it was after the last one. Pure."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from tests.storm.storm_log import Fault, ModelEvent, SlotSample, StormLog

SETTLE_SECONDS: Final = 10.0  # after a fault, until everything is as quick as before it
SLOWER: Final = 2.0  # the p50 afterwards is at most so many times that before
MIN_TRIPS: Final = 20  # below it, a median says little
AROUND: Final = 2  # samples before and after one: the API's numbers of slots are up to a second old

Finding = tuple[str, str, str, str]


def check_liveness(log: StormLog) -> Iterator[Finding]:
    """Yield what is slower, idle or reloaded without a cause."""
    if not log.faults:
        return
    yield from check_latency(log)
    yield from check_slots(log.slot_samples, log.faults, log.settled_at)
    yield from check_progress(log.slot_samples, log.faults, log.settled_at)
    yield from check_reloads(log.model_events, log.faults)


def list_before_and_after(log: StormLog) -> tuple[list[float], list[float]]:
    """Return the seconds of the steady load's jobs before the first fault, and once the last one had no effect."""
    return (
        log.list_round_trips(0.0, log.first_fault_began),
        log.list_round_trips(log.settled_at, float("inf")),
    )


def check_latency(log: StormLog) -> Iterator[Finding]:
    """Yield a finding if the steady load is slower once the faults are over."""
    before, after = list_before_and_after(log)
    if min(len(before), len(after)) < MIN_TRIPS:
        seen = f"{len(before)} and {len(after)}"
        yield "", "the latency is measured", f"{MIN_TRIPS} jobs before the faults and after them", seen
    elif median(after) > SLOWER * median(before):
        limit = f"a p50 of at most {SLOWER:g} times {1000 * median(before):.0f} ms"
        yield "", "the latency returns", limit, f"{1000 * median(after):.0f} ms"


def check_slots(samples: Sequence[SlotSample], faults: Sequence[Fault], settled_at: float) -> Iterator[Finding]:
    """Yield jobs that waited for over a second beside free slots, while no fault explains it."""
    first = min(fault.began for fault in faults)
    for sample, near in list_quiet(samples, faults, settled_at):
        for model in set.intersection(*(each.free for each in near)) & sample.waiting.keys():
            seen = f"{model} idles {sample.at - first:+.1f} s from the first fault"
            yield sample.waiting[model][0], "no slot idles", "a free slot takes a job that waits", seen


def check_progress(samples: Sequence[SlotSample], faults: Sequence[Fault], settled_at: float) -> Iterator[Finding]:
    """Yield runs that stood still for over a second: none of their jobs waited or ran, while no fault explains it."""
    found: set[str] = set()
    for _, near in list_quiet(samples, faults, settled_at):
        found |= frozenset.intersection(*(each.standing for each in near))
    for run in sorted(found):
        yield run, "no run stands still", "a job that waits or runs, or the end of the run", "neither"


def list_quiet(
    samples: Sequence[SlotSample], faults: Sequence[Fault], settled_at: float
) -> Iterator[tuple[SlotSample, Sequence[SlotSample]]]:
    """Yield samples that no fault explains, each with those before and after it.

    While the backlog of the last fault is worked off, the processor may be what jobs wait for.
    """
    last = max(fault.ended for fault in faults)
    for index in range(AROUND, len(samples) - AROUND):
        near, sample = samples[index - AROUND : index + AROUND + 1], samples[index]
        if any(fault.began <= near[-1].at and near[0].at <= fault.ended + SETTLE_SECONDS for fault in faults):
            continue
        if not last <= sample.at <= settled_at:
            yield sample, near


def check_reloads(events: Sequence[ModelEvent], faults: Sequence[Fault]) -> Iterator[Finding]:
    """Yield unloads of models without a cause since their last load, in this start of their Triton.

    A cause is a stall, or that a dispatcher lets the model make room.
    """
    causes: dict[tuple[str, str], float] = {}
    for event in events:
        place = event.triton, event.model
        if event.event in ("model.quarantined", "model.draining"):
            if event.reason != "shared":
                causes[place] = event.at
            continue
        caused = causes.pop(place, 0.0)
        started = max(
            (each.started for each in faults if each.name == event.triton and each.started < event.at), default=0
        )
        if event.event == "model.unloaded" and caused <= started:
            seen = f"{event.model} in {event.triton}, {event.at - started:.1f} s after its start"
            yield "", "no healthy model is reloaded", "a stall or a drain before", seen
