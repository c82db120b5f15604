"""The composition root of the dispatcher."""

import asyncio
import os
import socket
from collections.abc import Coroutine
from functools import partial
from typing import Any

from aio_pika.abc import AbstractChannel

from common.errors import SettingsError
from common.http import health
from common.jobs import Priority
from common.lifecycle import run_until_stopped
from common.postgres import database_metrics
from common.postgres.database import Database
from common.rabbitmq import topology
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.consumer import Consumer, Subscription
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.security.signed_urls import UrlSigner
from common.telemetry.logs import Log
from common.telemetry.metrics import measure_loop_lag
from common.views.job import JobUrls
from services.dispatcher import metrics
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import ClaimStore
from services.dispatcher.control import ControlHandler
from services.dispatcher.heartbeat import Heartbeat
from services.dispatcher.maintenance import own_retention, retention, usage
from services.dispatcher.maintenance.batch_store import BatchStore
from services.dispatcher.maintenance.batches import BatchCompleter
from services.dispatcher.maintenance.own_retention_store import OwnRetentionStore
from services.dispatcher.maintenance.reconciler import Reconciler
from services.dispatcher.maintenance.reconciler_store import ReconcilerStore
from services.dispatcher.maintenance.retention_store import RetentionStore
from services.dispatcher.maintenance.sweeper import LeaseGrace, Sweeper
from services.dispatcher.maintenance.sweeper_store import SweeperStore
from services.dispatcher.maintenance.usage_store import UsageStore
from services.dispatcher.models.catalogue import Catalogue
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.store import ModelStore
from services.dispatcher.quarantines.reloader import Reloader
from services.dispatcher.quarantines.shared_quarantine import SharedQuarantine, name_server
from services.dispatcher.quarantines.store import QuarantineStore
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.result_writer import ResultWriter
from services.dispatcher.results.store import ResultStore
from services.dispatcher.runner import Runner
from services.dispatcher.sessions import presence
from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore
from services.dispatcher.settings import DispatcherSettings
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.connection import Access, TlsFiles, parse_headers
from services.dispatcher.waiter_presence import WaiterPresence

HANDLERS_SECONDS = 1.0  # for claims that run when the dispatcher stops
WAKE_UP_SECONDS = 5.0  # for messages that are not confirmed when the dispatcher stops
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
    return Access(files if settings.triton_tls else None, parse_headers(settings.triton_headers))


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
        results, claims = ResultStore(database), ClaimStore(database)
        urls = JobUrls(settings.public_url, settings.trace_url, UrlSigner(settings.url_keys))
        self._recorder = ResultRecorder(ResultWriter(results, self._wake_ups, changes), urls)
        self._triton = TritonClient(settings.triton_url, settings.max_message, read_access(settings))
        self._heartbeat = Heartbeat(claims, settings.lease)
        self._control = ControlHandler(self._heartbeat, self._waiters)
        self._sessions = SessionStore(database)
        self._session_lock = SessionLock(self._sessions, settings.lease)
        self._limits = RunLimits(claims, self._wake_ups.announce)
        claimer = Claims(
            *(claims, self._limits),
            worker=settings.worker,
            lease=settings.lease,
            read_session=lambda: self._session_lock.session,
            max_inputs=settings.max_inputs,
        )
        metrics.input_bytes.set_function(lambda: claimer.inputs.used)
        self._runner = Runner(
            *(self._triton, claimer, results, self._recorder, changes, self._heartbeat), settings.max_outputs
        )
        self._catalogue = Catalogue(
            self._triton,
            ModelStore(database, settings.worker, lambda: self._session_lock.session, settings.slots),
            self._consume,
            interval=settings.catalogue_interval,
            slots=settings.slots,
            grace=settings.model_grace,
            patterns=settings.models,
        )
        self._quarantine = SharedQuarantine(
            self._triton.quarantine,
            QuarantineStore(database),
            Reloader(self._triton),
            self._catalogue.refresh_requested,
            name_server(settings.triton_url, socket.gethostname()),
        )
        metrics.triton_ready.set_function(lambda: self._catalogue.is_up)

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what runs until the dispatcher stops, by name."""
        settings, database = self._settings, self._database
        interval = settings.sweep_interval
        grace = LeaseGrace(settings.lease, interval)
        lost_sessions = LostSessions(self._sessions, self._session_lock, interval)
        sweeper = Sweeper(SweeperStore(database), self._recorder, self._wake_ups, grace, lost_sessions, interval)
        reconciler = Reconciler(ReconcilerStore(database), self._recorder, self._publisher, self._wake_ups)
        completer = BatchCompleter(BatchStore(database), self._wake_ups, self._changes, settings.public_url, interval)
        checks = {
            "database": database.check,
            "broker": self._consumer.connection.check,
            "triton": self._catalogue.check,
        }
        return {
            "publisher": self._publisher.connection.run(),
            "consumer": self._consumer.connection.run(),
            "catalogue": self._catalogue.run(),
            "quarantine": self._quarantine.run(),
            "session": self._session_lock.run(),
            "presence": presence.run(self._sessions, settings.worker),
            "limits": self._limits.run(),
            "heartbeat": self._heartbeat.run(),
            "sweeper": sweeper.run(),
            "reconciler": reconciler.run(),
            "retention": retention.run(RetentionStore(database), settings.retention, settings.audit_retention),
            "own retention": own_retention.run(OwnRetentionStore(database)),
            "usage": usage.run(UsageStore(database), by_tenant=settings.tenant_metrics),
            "batches": completer.run(),
            "database_metrics": database_metrics.collect_metrics(database),
            "loop lag": measure_loop_lag(),
            "health": health.serve(settings.host, settings.port, checks).serve(),
        }

    async def _consume(self, model: ServedModel) -> None:
        """Consume the queues of a new model."""
        metrics.init_model(model.name)
        metrics.slots_limit.labels(model.name).set_function(lambda: model.concurrency.limit)
        metrics.model_ready.labels(model.name).set_function(model.available.is_set)
        metrics.model_paused.labels(model.name).set_function(lambda: model.breaker.is_open)
        for priority in Priority:
            await self._consumer.subscribe(
                Subscription(
                    topology.job_queue(model.name, priority),
                    model.count_prefetch(),
                    partial(topology.declare_model_queues, model=model.name, queue_type=self._settings.queue_type),
                    partial(self._runner.handle, model, priority),
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
        await self._database.close()
