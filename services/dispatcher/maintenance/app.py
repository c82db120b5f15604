"""The composition root of a process with only the maintenance."""

import asyncio
import os
import socket

from common.http import health
from common.lifecycle import run_until_stopped
from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.runs.progress import RunCarrier
from common.runs.tensor_files import TensorFiles
from common.security.signed_urls import UrlSigner
from common.telemetry.logs import Log
from common.telemetry.metrics import measure_loop_lag
from common.views.job import JobUrls
from services.dispatcher.maintenance.maintenance import Maintenance, Parts
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.results.output_locations import OutputLocations
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.result_writer import ResultWriter
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.store import ResultStore
from services.dispatcher.results.unsettled_keys import UnsettledKeys
from services.dispatcher.reuse.settler import Settler
from services.dispatcher.reuse.sweeper import make_leadership
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore
from services.dispatcher.settings import MaintenanceSettings

CONNECTIONS = 9  # one of them holds the session's lock
BUCKET_SECONDS = 15.0  # the maintenance writes no outputs
WAKE_UP_SECONDS = 5.0  # for messages that are not confirmed when the process stops

log = Log("maintenance")


async def run(settings: MaintenanceSettings, stopping: asyncio.Event) -> None:
    """Serve until `stopping` is set, then drain."""
    database = await Database.connect(settings.database_url, size=CONNECTIONS, application="charonia-maintenance")
    publisher = Publisher(settings.amqp_url, "maintenance", settings.queue_type)
    wake_ups, changes = WakeUpPublisher(publisher), ChangePublisher(publisher)
    objects, results = ObjectStore(settings.store_url), ResultStore(database)
    locations = OutputLocations(AllowedLocations(database, settings.store_url), Buckets(BUCKET_SECONDS))
    urls = JobUrls(settings.public_url, settings.trace_url, UrlSigner(settings.url_keys))
    unsettled = UnsettledKeys()
    runs = RunProgress(database, RunCarrier(urls, TensorFiles(database, objects)), changes, unsettled)
    writer = ResultWriter(database, results, runs, wake_ups, changes, unsettled)
    settler = Settler(database, runs, unsettled, wake_ups, changes, urls)
    reuse = make_leadership(database, unsettled, settings.sweep_interval, lambda: publisher.connection.is_up)
    recorder = ResultRecorder(writer, OutputFiles(results, objects), locations, urls)
    session_lock = SessionLock(SessionStore(database), settings.lease)
    parts = Parts(database, objects, publisher, wake_ups, changes, recorder, session_lock, runs)
    checks = {"database": database.check, "broker": publisher.connection.check}
    nodes = {"database": lambda: database.node, "broker": lambda: publisher.connection.node}
    loops = {
        "publisher": publisher.connection.run(),
        "session": session_lock.run(),
        "maintenance": Maintenance(settings, parts).run(),
        "settler": settler.run(),
        "reuse": reuse.run(),
        "loop lag": measure_loop_lag(),
        "health": health.serve(settings.host, settings.port, checks, nodes).serve(),
    }

    async def drain() -> None:
        await wake_ups.drain(WAKE_UP_SECONDS)

    log.info("maintenance.started", host=socket.gethostname(), pid=os.getpid())
    try:
        await run_until_stopped(loops, stopping, drain)
    finally:
        locations.close()
        objects.close()
        await database.close()
    log.info("maintenance.stopped")
