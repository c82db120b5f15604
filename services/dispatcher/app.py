"""The dispatcher, put together."""

import asyncio
from functools import partial

from aio_pika.abc import AbstractChannel

from common import census, health, topology
from common.bell import Bell
from common.broker import Consumer, Publisher, Subscription
from common.database import KEPT_PLANS, Database
from common.grants import Grants
from common.job_view import Links
from common.jobs import Priority
from common.lifecycle import keep_running
from common.logs import Log
from common.metrics import measure_lag
from common.outbox import Outbox
from services.dispatcher import batches, metrics
from services.dispatcher.catalogue import Catalogue, Runnable
from services.dispatcher.listeners import Listeners
from services.dispatcher.purge import purge
from services.dispatcher.record import Recorder
from services.dispatcher.run import Runner
from services.dispatcher.settings import DispatcherSettings
from services.dispatcher.store import Store
from services.dispatcher.sweep import Grace, Sweeper
from services.dispatcher.triton import Triton

HANDLERS_SECONDS = 1.0  # for claims under way when the dispatcher stops
CONTROL_PREFETCH = 100
OUTBOX_SECONDS = 5.0  # for messages on their way to the broker then

log = Log("dispatcher")


async def run(settings: DispatcherSettings, stopping: asyncio.Event) -> None:
    """Serves until `stopping` is set, then drains."""
    database = await Database.connect(settings.database_url, application="charonia-dispatcher", planning=KEPT_PLANS)
    publisher = Publisher(settings.amqp_url, settings.worker)
    consumer = Consumer(settings.amqp_url, settings.worker)
    outbox = Outbox(database, publisher)
    store = Store(database)
    links = Links(settings.public_url, settings.trace_url, Grants(settings.encryption_keys))
    listeners = Listeners()
    bell = Bell(publisher, listeners.are_there)
    recorder = Recorder(store, outbox, bell, links)
    grace = Grace(settings.lease, settings.sweep_interval)
    sweeper = Sweeper(store, recorder, outbox, grace, settings.sweep_interval)
    completer = batches.Completer(database, outbox, settings.public_url, settings.sweep_interval)
    triton = Triton(settings.triton_url, settings.max_message)
    runner = Runner(triton, store, recorder, bell, listeners, worker=settings.worker, lease=settings.lease)

    async def adopt(model: Runnable) -> None:
        metrics.prepare(model.name)
        metrics.slots_limit.labels(model.name).set_function(lambda: model.slots.limit)
        metrics.model_ready.labels(model.name).set_function(model.gate.is_set)
        for priority in Priority:
            await consumer.subscribe(
                Subscription(
                    topology.job_queue(model.name, priority),
                    model.count_held(),
                    partial(topology.declare_model, model=model.name),
                    partial(runner.handle, model, priority),
                )
            )

    catalogue = Catalogue(
        triton,
        store,
        adopt,
        interval=settings.catalogue_interval,
        slots=settings.slots,
        grace=settings.model_grace,
        patterns=settings.models,
    )
    metrics.triton_ready.set_function(lambda: catalogue.up)
    control = f"control.{settings.worker}"

    async def declare_control(channel: AbstractChannel) -> None:
        """With each connection: what was said before it is not known here."""
        await topology.declare_own(channel, control, topology.CONTROL)
        listeners.expect()

    await consumer.subscribe(Subscription(control, CONTROL_PREFETCH, declare_control, runner.take_control))
    checks = {"database": database.check, "broker": consumer.link.check, "triton": catalogue.check}
    server = health.serve(settings.host, settings.port, checks)

    async def drain() -> None:
        await consumer.stop(HANDLERS_SECONDS)
        await runner.stop(settings.shutdown_grace)
        await recorder.drain(OUTBOX_SECONDS)
        await outbox.drain(OUTBOX_SECONDS)

    log.info("dispatcher.started", worker=settings.worker, triton=settings.triton_url)
    try:
        await keep_running(
            {
                "publisher": publisher.link.run(),
                "consumer": consumer.link.run(),
                "relay": outbox.relay(),
                "catalogue": catalogue.watch(),
                "leases": runner.renew(),
                "sweeper": sweeper.run(),
                "purge": purge(store, settings.retention),
                "batches": completer.run(),
                "purge of batches": batches.purge(database, settings.retention),
                "census": census.watch(database),
                "lag": measure_lag(),
                "health": server.serve(),
            },
            stopping,
            drain,
        )
    finally:
        await triton.close()
        await database.close()
    log.info("dispatcher.stopped", worker=settings.worker)
