"""What a job costs and waits while there is much of something else: as a multiple of the same without it.

Latencies are in ms, CPU in ms per job.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.report import Figures, pick, with_prefix
from benchmarks.scenarios.waiting import AT_A_TIME, Crowd
from common import tensors
from common.postgres import sql
from common.tensors import Datatype, Tensor
from deploy.local.servers.postgres import DATABASE

RATE = 20  # jobs per second of the one who is measured
TENANTS = 10_000
JOBS = 10  # that wait, of each tenant
LONG_MS = 60_000  # how long each of them takes
SUBSCRIPTIONS = 10  # of each tenant
MODELS = 1_000
STREAMS = 10_000
BATCH = 100_000
MEASURED = ("webhook.p50", "webhook.p99", "own", "cpu.postgres")
QUERIES = sql.load("benchmarks.harness", "crowd.sql")

Setup = Callable[[Bench], AbstractContextManager[None]]


def run(bench: Bench, name: str, *values: object) -> None:
    """Run a statement with values that need no quotes, but for text."""
    text = QUERIES[name]
    for number, value in reversed([*enumerate(values, 1)]):
        text = text.replace(f"${number}", f"'{value}'" if isinstance(value, str) else str(value))
    bench.stack.postgres.query(text, DATABASE)


def pack_ms(ms: int) -> str:
    """Return the input of `work`, as text of a bytea."""
    return "\\x" + tensors.pack([Tensor("ms", Datatype.INT32, [1, 1], ms.to_bytes(4, "little"))]).hex()


def pack_numbers() -> str:
    """Return the input of `echo`, as text of a bytea."""
    return "\\x" + tensors.pack([Tensor("x", Datatype.FP32, [1, 1], bytes(4))]).hex()


@contextmanager
def waiting_jobs(bench: Bench) -> Iterator[None]:
    """Many tenants have jobs that wait for a model whose slots are all in use for long."""
    run(bench, "add_jobs", JOBS, "work", pack_ms(LONG_MS), "crowd-%")
    bench.stack.postgres.query("ANALYZE live_jobs", DATABASE)
    yield
    run(bench, "remove_jobs", "work")


@contextmanager
def subscriptions(bench: Bench) -> Iterator[None]:
    run(bench, "add_subscriptions", SUBSCRIPTIONS)
    bench.stack.postgres.query("ANALYZE webhooks, endpoints", DATABASE)
    yield
    run(bench, "remove_subscriptions")


@contextmanager
def models(bench: Bench) -> Iterator[None]:
    """Another dispatcher has many models that rest."""
    run(bench, "add_dispatcher")
    run(bench, "add_models", MODELS)
    yield
    run(bench, "remove_models")
    run(bench, "remove_dispatcher")


@contextmanager
def streams(bench: Bench) -> Iterator[None]:
    """Clients stream the events of jobs that run in an hour."""
    crowd, url = bench.child("crowd"), bench.stack.gateways[0].url
    crowd.call(Crowd.open, jobs=crowd.call(Crowd.submit, url=url, count=STREAMS))
    yield
    crowd.call(Crowd.submit, url=url, count=AT_A_TIME)  # closes the streams


@contextmanager
def batch(bench: Bench) -> Iterator[None]:
    """A tenant has many jobs that run as fast as they can, on the same model."""
    run(bench, "add_jobs", BATCH, "echo", pack_numbers(), "crowd-1")
    yield
    run(bench, "remove_jobs", "echo")


CROWDS: dict[str, Setup] = {
    "tenants": waiting_jobs,
    "subscriptions": subscriptions,
    "models": models,
    "streams": streams,
    "batch": batch,
}


def measure(bench: Bench) -> Iterator[Figures]:
    run(bench, "add_tenants", TENANTS)
    bench.run_open(bench.seconds, rate=RATE)
    while True:
        figures: Figures = {}
        for name, crowd in CROWDS.items():
            alone = pick(bench.run_open(bench.seconds, rate=RATE), *MEASURED)
            with crowd(bench):
                beside = pick(bench.run_open(bench.seconds, rate=RATE), *MEASURED)
            bench.stack.postgres.query("VACUUM (ANALYZE)", DATABASE)
            ratios = {f"{figure}.ratio": beside[figure] / alone[figure] for figure in MEASURED}
            figures |= with_prefix(name, with_prefix("alone", alone) | with_prefix("beside", beside) | ratios)
        yield figures


SETUP = {
    "rate": RATE,
    "tenants": TENANTS,
    "jobs": JOBS,
    "subscriptions": TENANTS * SUBSCRIPTIONS,
    "models": MODELS,
    "streams": STREAMS,
    "batch": BATCH,
}
SCENARIO = Scenario(measure, SETUP)
