"""Private servers for the tests. Each worker has one set, started by the first test that needs it."""

import contextlib
import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from deploy.local.processes.ports import free_ports, use_share
from deploy.local.servers.postgres import Postgres
from deploy.local.servers.rabbitmq import RabbitMQ
from deploy.local.servers.server import Server
from deploy.local.servers.triton import Triton
from deploy.local.settings import Settings
from tests.support.failure_report import drop_foreign_frames
from tests.support.receivers.certificate_authority import Authority
from tests.support.s3.server import S3

DEFAULTS = Settings()
SLOWEST_FIRST = (
    "tests/acceptance",
    "tests/storm",
    "tests/cluster_storm",
    "tests/upgrade",
    "tests/integration",
    "tests/unit",
)
NEEDS_TRITON = {"triton", "stack"}
FREE_BYTES = 1_000_000_000  # what all workers write between two tests
# A transaction of any database hides the newest ends and events, and autovacuum begins some at any time.
QUIET = {"autovacuum": "off"}
DISKS = (tempfile.gettempdir(), "/var/lib")  # with root's tests, PostgreSQL has its data in the second


# How long a test takes depends on what runs beside it.
hypothesis.settings.register_profile(
    "side by side", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("side by side")


def pytest_configure() -> None:
    """Give each worker ports of its own."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        use_share(int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are found, and never among them: they stay to the end, and are many."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest tests first, so that workers end together. Mark tests that need a Triton."""
    items.sort(
        key=lambda item: next(place for place, folder in enumerate(SLOWEST_FIRST) if item.nodeid.startswith(folder))
    )
    for item in items:
        if NEEDS_TRITON.intersection(getattr(item, "fixturenames", ())) or item.nodeid.startswith("tests/acceptance"):
            item.add_marker(pytest.mark.triton)


def pytest_runtest_logstart() -> None:
    """End the whole run when a disk is nearly full. Tests would fail in ways that name no cause."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the main process sees this call, too
    for folder in DISKS:
        if (free := shutil.disk_usage(folder).free) < FREE_BYTES:
            pytest.exit(f"{folder} has {free / 1e6:.0f} MB left; tests need {FREE_BYTES / 1e6:.0f} MB", returncode=1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show only frames of this repository: those of pytest and of libraries hide them."""
    report = yield
    for entry in getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ()):
        entry.lines = drop_foreign_frames(entry.lines)
    return report


@pytest.fixture(scope="session", autouse=True)
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust one authority instead of the system's, which each client of HTTP would load for 50 ms of CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(Authority(tmp_path_factory.mktemp("authority")).path))
        yield


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server. Tests create their own databases with `create_database`."""
    server = Postgres(tmp_path_factory.mktemp("postgres"), *free_ports(1), durable=False, options=QUIET)
    try:
        with running(server):
            yield server
    finally:
        server.delete()


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A RabbitMQ server. Tests create their own virtual hosts with `create_vhost`."""
    port, dist_port, epmd_port = free_ports(3)
    with running(server := RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), port, dist_port, epmd_port)):
        yield server


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A Triton server with the models of deploy/models, without tracing."""
    grpc_port, http_port, metrics_port = free_ports(3)
    directory: Path = tmp_path_factory.mktemp("triton")
    server = Triton(directory, DEFAULTS.model_repository, grpc_port, http_port, metrics_port, DEFAULTS.triton_venv)
    with running(server):
        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """An S3 server that checks signatures. Tests create their own buckets with `create_bucket`."""
    with running(server := S3(tmp_path_factory.mktemp("s3"), *free_ports(2))):
        yield server


@contextlib.contextmanager
def running(server: Server) -> Iterator[None]:
    try:
        server.start()
        yield
    finally:
        server.stop()
