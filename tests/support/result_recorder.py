"""A recorder of the results of jobs whose outputs are small."""

from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.views.job import JobUrls
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.results.output_locations import OutputLocations
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.result_writer import ResultWriter
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.store import ResultStore
from tests.support.carrier import NOWHERE, make_carrier


def make_recorder(
    database: Database, store: ResultStore, wake_ups: WakeUpPublisher, changes: ChangePublisher
) -> ResultRecorder:
    """Return a recorder. Nobody answers as its object store or as a bucket."""
    files = OutputFiles(store, ObjectStore(NOWHERE))
    locations = OutputLocations(AllowedLocations(database, NOWHERE), Buckets(1.0))
    return ResultRecorder(make_writer(database, store, wake_ups, changes), files, locations, JobUrls())


def make_writer(
    database: Database, store: ResultStore, wake_ups: WakeUpPublisher, changes: ChangePublisher
) -> ResultWriter:
    runs = RunProgress(database, make_carrier(database), changes)
    return ResultWriter(database, store, runs, wake_ups, changes)
