"""The composition root of the dispatcher."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from aio_pika.abc import AbstractChannel

from common.errors import SettingsError
from common.http import health
from common.http_client.client import CheckedClient
from common.job_states import Priority
from common.lifecycle import run_until_stopped
from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq import topology
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.subscription import Subscription
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.runs.progress import RunCarrier
from common.runs.tensor_files import TensorFiles
from common.security.signed_urls import UrlSigner
from common.security.ssrf import AddressPolicy
from common.telemetry.logs import Log
from common.telemetry.metrics import measure_loop_lag
from common.views.job import JobUrls
from services.dispatcher import metrics
from services.dispatcher.attempts.attempts import Attempts
from services.dispatcher.attempts.lease_renewer import LeaseRenewer
from services.dispatcher.attempts.request_reader import RequestReader
from services.dispatcher.attempts.runner import Runner
from services.dispatcher.attempts.running_job import RunningJobs
from services.dispatcher.attempts.suspects import Suspects
from services.dispatcher.attempts.url_inputs import UrlInputs
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import LimitStore
from services.dispatcher.control import ControlHandler, WaiterPresence
from services.dispatcher.inputs.bucket_reader import BucketReader
from services.dispatcher.inputs.fetched import FetchFolder
from services.dispatcher.inputs.input_reader import InputReader
from services.dispatcher.inputs.references import FileUrls
from services.dispatcher.inputs.url_fetcher import FetchLimits, UrlFetcher
from services.dispatcher.maintenance.maintenance import Maintenance, Parts
from services.dispatcher.models.catalogue import Catalogue
from services.dispatcher.models.load_store import LoadStore
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.shared_loads import SharedLoads
from services.dispatcher.models.store import ModelStore
from services.dispatcher.pod_deletion_cost import Pod, PodDeletionCost
from services.dispatcher.quarantines.reloader import Reloader
from services.dispatcher.quarantines.shared_quarantine import SharedQuarantine, name_server
from services.dispatcher.quarantines.store import QuarantineStore
from services.dispatcher.residency import residency
from services.dispatcher.residency.metrics import note_reload
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.results.output_locations import OutputLocations
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.result_writer import ResultWriter
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.store import ResultStore
from services.dispatcher.results.unsettled_keys import UnsettledKeys
from services.dispatcher.reuse.settler import Settler
from services.dispatcher.reuse.sweeper import make_leadership
from services.dispatcher.sessions.session_lock import SessionLock, show_liveness
from services.dispatcher.sessions.store import SessionStore
from services.dispatcher.settings import DispatcherSettings
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.connection import Access, TlsFiles, parse_headers

HANDLERS_SECONDS = 1.0  # for claims that run when the dispatcher stops
WAKE_UP_SECONDS = 5.0  # for messages that are not confirmed when the dispatcher stops
OUTPUT_SECONDS = 15.0  # for each step of writing an output to a bucket of a tenant
INPUT_SECONDS = 5.0  # for each step of reading a job's file, while the job holds a slot
CONTROL_PREFETCH = 100
CONNECTIONS = 11  # one of them holds the session's lock

log = Log("dispatcher")


async def run(settings: DispatcherSettings, stopping: asyncio.Event) -> None:
    """Serve until `stopping` is set, then drain."""
    database = await Database.connect(settings.database_url, size=CONNECTIONS, application="charonia-dispatcher")
    dispatcher = Dispatcher(settings, database)
    await dispatcher.subscribe_control()
    whereabouts = {"host": socket.gethostname(), "pid": os.getpid()}  # the worker's name hides them from tenants
    log.info("dispatcher.started", worker=settings.worker, **whereabouts, triton=settings.triton_url)
    try:
        await run_until_stopped(dispatcher.loops(), stopping, dispatcher.drain)
    finally:
        await dispatcher.close()
    log.info("dispatcher.stopped", worker=settings.worker)


def read_access(settings: DispatcherSettings) -> Access:
    """Return how Triton wants to be called. Raise SettingsError for files without TLS, which would be ignored."""
    files = TlsFiles(settings.triton_tls_ca, settings.triton_tls_certificate, settings.triton_tls_key)
    if not settings.triton_tls and files != TlsFiles():
        raise SettingsError("CHARONIA_TRITON_TLS is not set, but files for TLS are. Set it to true.")
    headers = parse_headers(settings.triton_headers)
    return Access(files if settings.triton_tls else None, headers, settings.triton_repository_key)


def open_fetcher(settings: DispatcherSettings) -> UrlFetcher:
    policy = AddressPolicy.parse(settings.input_networks, settings.input_http, "CHARONIA_INPUT_NETWORKS")
    client = CheckedClient.open(
        policy, timeout=settings.fetch_timeout, concurrency=settings.max_fetches, proxy=settings.egress_proxy
    )
    limits = FetchLimits(settings.max_tensor_bytes, settings.fetch_timeout)
    return UrlFetcher(client, policy, limits, FetchFolder(settings.fetch_folder, settings.max_fetched_bytes))


def find_deletion_cost(settings: DispatcherSettings, count_jobs: Callable[[], int]) -> PodDeletionCost | None:
    if not settings.pod_name:
        return None
    return PodDeletionCost(Pod.find(settings.pod_name, settings.service_account, os.environ), count_jobs)


class Dispatcher:
    """All parts of a dispatcher, wired together."""

    def __init__(self, settings: DispatcherSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._publisher = Publisher(settings.amqp_url, settings.worker, settings.queue_type)
        self._consumer = Consumer(settings.amqp_url, settings.worker, settings.queue_type)
        self._wake_ups = WakeUpPublisher(self._publisher)
        self._waiters = WaiterPresence()
        self._changes = changes = ChangePublisher(self._publisher, self._waiters.has_waiters)
        results = ResultStore(database)
        signer = UrlSigner(settings.url_keys)
        urls = JobUrls(settings.public_url, settings.trace_url, signer)
        self._objects = ObjectStore(settings.store_url)
        tensors = TensorFiles(database, self._objects, settings.inline_output_bytes)
        unsettled = UnsettledKeys()
        runs = RunProgress(database, RunCarrier(urls, tensors), changes, unsettled)
        writer = ResultWriter(database, results, runs, self._wake_ups, changes, unsettled)
        self._settler = Settler(database, runs, unsettled, self._wake_ups, changes, urls)
        self._reuse = make_leadership(
            database, unsettled, settings.sweep_interval, lambda: self._publisher.connection.is_up
        )
        outputs = OutputFiles(results, self._objects)
        allowed = AllowedLocations(database, settings.store_url)
        self._locations = OutputLocations(allowed, Buckets(OUTPUT_SECONDS))
        self._recorder = ResultRecorder(writer, outputs, self._locations, urls)
        self._input_objects = ObjectStore(settings.store_url, INPUT_SECONDS)
        self._triton = TritonClient(settings.triton_url, settings.max_triton_response_bytes, read_access(settings))
        self._jobs: RunningJobs = {}
        self._leases = LeaseRenewer(database, self._jobs, settings.lease)
        self._control = ControlHandler(self._leases, self._waiters)
        self._sessions = SessionStore(database)
        self._session_lock = SessionLock(self._sessions, settings.lease)
        parts = Parts(
            database,
            self._objects,
            self._publisher,
            self._wake_ups,
            changes,
            self._recorder,
            self._session_lock,
            runs,
        )
        self._maintenance = Maintenance(settings, parts)
        self._limits = RunLimits(LimitStore(database), self._wake_ups.announce)
        claimer = Claims(
            database,
            self._limits,
            worker=settings.worker,
            lease=settings.lease,
            read_session=lambda: self._session_lock.session,
            max_inputs=settings.max_inputs_bytes,
            max_fetches=settings.max_fetches,
        )
        file_urls = FileUrls(self._input_objects, signer, settings.gateway_url or settings.public_url)
        metrics.input_bytes.set_function(lambda: claimer.inputs.used)
        self._url_inputs = UrlInputs(open_fetcher(settings), claimer)
        self._buckets = BucketReader(allowed, Buckets(INPUT_SECONDS))
        inputs = InputReader(self._input_objects, file_urls, self._buckets)
        requests = RequestReader(inputs, self._url_inputs, settings.max_job_outputs_bytes, settings.inline_output_bytes)
        suspects = Suspects(self._jobs)
        attempts = Attempts(self._triton, requests, self._recorder, suspects)
        self._runner = Runner(database, claimer, attempts, self._jobs, suspects, changes)
        self._server = name_server(settings.triton_url, socket.gethostname())
        self._catalogue = self._make_catalogue()
        self._quarantine = self._make_quarantine()
        self._deletion_cost = find_deletion_cost(settings, lambda: len(self._jobs))
        metrics.triton_ready.set_function(lambda: self._catalogue.is_up)

    def _make_catalogue(self) -> Catalogue:
        settings = self._settings
        return Catalogue(
            self._triton,
            ModelStore(self._database, settings.worker, lambda: self._session_lock.session, settings.slots),
            SharedLoads(self._triton, LoadStore(self._database, self._server, settings.worker)),
            self._consume,
            interval=settings.catalogue_interval,
            slots=settings.slots,
            grace=settings.model_grace,
            patterns=settings.models,
            loads_models=settings.budget is not None,
        )

    def _make_quarantine(self) -> SharedQuarantine:
        return SharedQuarantine(
            self._triton.quarantine,
            QuarantineStore(self._database),
            Reloader(self._triton, note_reload, is_planned=self._settings.budget is not None),
            self._catalogue.refresh_requested,
            self._server,
        )

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what runs until the dispatcher stops, by name."""
        checks = {
            "database": self._database.check,
            "broker": self._consumer.connection.check,
            "triton": self._catalogue.check,
        }
        nodes = {"database": lambda: self._database.node, "broker": lambda: self._consumer.connection.node}
        return {
            "publisher": self._publisher.connection.run(),
            "consumer": self._consumer.connection.run(),
            "catalogue": self._catalogue.run(),
            "quarantine": self._quarantine.run(),
            "session": self._session_lock.run(),
            "liveness": show_liveness(self._sessions, self._settings.worker),
            "limits": self._limits.run(),
            "lease renewer": self._leases.run(),
            "maintenance": self._maintenance.run(),
            "settler": self._settler.run(),
            "reuse": self._reuse.run(),
            "loop lag": measure_loop_lag(),
            "health": health.serve(self._settings.host, self._settings.port, checks, nodes).serve(),
            **residency.make_loops(self._settings, self._database, self._triton, self._catalogue, self._server),
            **({} if self._deletion_cost is None else {"deletion cost": self._deletion_cost.run()}),
        }

    async def _consume(self, model: ServedModel) -> None:
        """Consume the queues of a new model."""
        metrics.init_model(model.name)
        metrics.slots_limit.labels(model.name).set_function(lambda: model.concurrency.limit)
        metrics.model_ready.labels(model.name).set_function(model.available.is_set)
        metrics.model_circuit_open.labels(model.name).set_function(lambda: model.breaker.is_open)
        queue_type = self._settings.queue_type
        for priority in Priority:
            await self._consumer.subscribe(
                Subscription(
                    topology.job_queue(model.name, priority),
                    model.count_prefetch(),
                    partial(topology.declare_job_queue, model=model.name, priority=priority, queue_type=queue_type),
                    partial(self._runner.handle, model, priority),
                    group=model.name,
                )
            )

    async def subscribe_control(self) -> None:
        """Consume control messages from a queue of this dispatcher's own."""
        queue = f"control.{self._settings.worker}"

        async def declare(channel: AbstractChannel) -> None:
            """Run on each new connection, because messages from before it are lost."""
            await topology.declare_exclusive_queue(channel, queue, topology.CONTROL_EXCHANGE)
            self._waiters.assume_waiters()

        await self._consumer.subscribe(Subscription(queue, CONTROL_PREFETCH, declare, self._control.handle))

    async def drain(self) -> None:
        await self._consumer.stop(HANDLERS_SECONDS)
        await self._runner.stop(self._settings.shutdown_grace)
        await self._recorder.drain(WAKE_UP_SECONDS)
        await self._wake_ups.drain(WAKE_UP_SECONDS)

    async def close(self) -> None:
        await self._quarantine.stop()
        await self._triton.close()
        await self._url_inputs.close()
        self._objects.close()
        self._input_objects.close()
        self._buckets.close()
        self._locations.close()
        await self._database.close()
