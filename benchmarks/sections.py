"""What can be measured, by name: the stack that it needs, and how it is opened on that."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import bodies, burst, fairness, notifier, submission, tracing
from benchmarks.big import Big
from benchmarks.burst import Burst
from benchmarks.fairness import Fairness
from benchmarks.filling import fill
from benchmarks.memory import Memory
from benchmarks.notifier import Deliveries, Notifier
from benchmarks.pair import Pair
from benchmarks.place import Bench, Options, Place, open_stack
from benchmarks.retention import RETENTION, Retention
from benchmarks.saturation import Saturation
from benchmarks.speed import IN_FLIGHT, OWN, RATE, Speed
from benchmarks.submission import Submission
from benchmarks.together import Together
from benchmarks.tracing import Tracing
from benchmarks.waiting import CROWD, Waiting
from deploy.local.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from deploy.local.terminal import say

ALONE = (("gateways", 0), ("dispatchers", 0))
RATES = {"rate": RATE, "in_flight": IN_FLIGHT}


@dataclass(frozen=True)
class Section:
    """`setup` goes into the result, and those `options` that it heeds.

    `whole`: each job must succeed, by one attempt. `once`: whatever the rounds of others are, it has one.
    """

    open: Callable[[Place], Bench]
    setup: dict[str, Any]
    options: tuple[str, ...] = ()
    whole: bool = False
    once: bool = False
    traced: bool = False
    counts: tuple[tuple[str, int], ...] = ()


@contextmanager
def open_section(name: str, directory: Path, options: Options) -> Iterator[tuple[Stack, Bench]]:
    """A stack of its own, and what is measured on it."""
    section = SECTIONS[name]
    (port,) = free_ports(1)  # the collector's of traces
    environment = tracing.name_collector(port) if section.traced else {}
    with open_stack(directory, environment, **dict(section.counts)) as stack, ExitStack() as stopping:
        yield stack, section.open(Place(stack, options, port, stopping))


def _open_speed(place: Place) -> Bench:
    direct, load = place.direct(), place.load()
    return Speed(direct, load, place.list_leaders("load", "direct client"), place.options.seconds)


def _open_work(place: Place) -> Bench:
    direct, load = place.direct(), place.load()
    return Saturation(direct, load, place.list_leaders("load"), place.stack.triton.metrics_url, place.options.seconds)


def _open_notifier(place: Place, kind: type[Notifier] = Notifier) -> Bench:
    stack = place.stack
    connections = stack.postgres.url, stack.rabbitmq.url, stack.environment["CHARONIA_ENCRYPTION_KEYS"]
    receiver, url = place.receiver()
    bells = place.drive("load", "benchmarks.doorbells", *connections)
    return kind(stack, bells, receiver, place.list_leaders("load", "receiver"), place.options.seconds, url)


def _open_waiting(place: Place) -> Bench:
    crowd = place.drive("crowd", "benchmarks.crowd", HOST, str(place.stack.gateways[0].port), DEVELOPMENT_KEY)
    return Waiting(place.stack, crowd, place.list_leaders("crowd"), place.options.seconds)


def _open_fairness(place: Place) -> Bench:
    keys = {"probe": DEVELOPMENT_KEY, "flood": fairness.add_key(place.stack, "flooding")}
    probe, flood = (place.drive(name, "benchmarks.flood", place.stack.url, key) for name, key in keys.items())
    return Fairness(probe, flood, place.list_leaders("probe", "flood"), place.options.seconds)


def _open_tracing(place: Place) -> Bench:
    sink = place.drive("sink", "benchmarks.sink", str(place.port))
    return Tracing(place.stack, place.load(), sink, place.options.seconds)


def _open_retention(place: Place) -> Bench:
    say(f"Filling the tables with {place.options.rows} jobs …")
    fill(place.stack, place.options.rows, 2 * RETENTION)
    purging = place.drive("purge", "benchmarks.purging", place.stack.postgres.url, str(RETENTION))
    load = place.load()
    return Retention(load, purging, place.list_leaders("load", "purge"), place.options.seconds)


def _open_submit(place: Place) -> Bench:
    nothing, submissions = place.drive("nothing", "benchmarks.nothing"), place.submissions()
    receiver, url = place.receiver()
    leaders = place.list_leaders("submissions", "receiver")
    return Submission(place.stack, submissions, receiver, nothing, leaders, place.options.seconds, url)


def _open_burst(place: Place) -> Bench:
    return Burst(place.stack, place.submissions(), *place.receiver())


def _open_pair(place: Place) -> Bench:
    return Pair(place.stack, place.load(), place.options.seconds)


def _open_memory(place: Place) -> Bench:
    load, submissions, (receiver, hook) = place.load(), place.submissions(), place.receiver()
    leaders = {name: pid for name, pid in place.list_leaders().items() if name in OWN}
    options = place.options
    return Memory(place.stack, load, submissions, receiver, hook, leaders, options.seconds, options.jobs)


def _open_big(place: Place) -> Bench:
    """On a second stack beside the first."""
    options, directory = place.options, place.stack.settings.stack_dir
    full = place.stopping.enter_context(open_stack(directory.with_name("full")))
    say(f"Filling its tables with {options.rows} ended jobs and {options.queued} that wait …")
    filled = fill(full, options.rows, 2 * RETENTION, options.queued)
    second = Place(full, options, place.port, place.stopping)
    loads = {"empty": place.load(), "full": second.load()}
    leaders = {"empty": place.list_leaders("load"), "full": second.list_leaders("load")}
    return Big(full, loads, leaders, options.seconds, filled)


def _open_core(place: Place) -> Bench:
    each = [opener(place) for opener in (_open_speed, _open_work, _open_submit, _open_pair)]
    return Together(each, once=[_open_burst(place)])


SECTIONS = {
    "core": Section(_open_core, RATES | {"work_ms": bodies.WORK_MS}, whole=True),
    "speed": Section(_open_speed, RATES, whole=True),
    "work": Section(_open_work, {"in_flight": IN_FLIGHT, "work_ms": bodies.WORK_MS}, whole=True),
    "submit": Section(_open_submit, {"connections": submission.CONNECTIONS}, whole=True),
    "burst": Section(_open_burst, {"jobs_at_once": burst.JOBS, "slow_ms": bodies.SLOW_MS}, whole=True),
    "pair": Section(_open_pair, {"in_flight": IN_FLIGHT}, whole=True),
    "memory": Section(_open_memory, {"in_flight": IN_FLIGHT}, options=("jobs",), once=True),
    "big": Section(_open_big, {"in_flight": IN_FLIGHT}, options=("rows", "queued")),
    "retention": Section(_open_retention, {"rate": RATE}, options=("rows",)),
    "waiting": Section(_open_waiting, {"crowd": CROWD}),
    "notifier": Section(
        _open_notifier,
        {"rate": notifier.RATE, "endpoints": notifier.SIZES, "events": notifier.EVENTS},
        counts=ALONE,
    ),
    "deliveries": Section(
        partial(_open_notifier, kind=Deliveries),
        {"events": notifier.EVENTS},
        counts=ALONE,
    ),
    "tracing": Section(_open_tracing, RATES, traced=True),
    "fairness": Section(_open_fairness, {"rate": fairness.RATE, "jobs": fairness.JOBS, "ms": fairness.MS}),
}
