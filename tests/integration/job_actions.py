"""What a gateway does to jobs and runs after their submit, on a database."""

from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.runs.pipelines import Pipelines
from common.views.job import JobUrls
from services.gateway.jobs.actions.cancel import Canceler
from services.gateway.jobs.actions.retry import Retrier
from services.gateway.jobs.runs.retry import RunRetrier
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.store import ModelStore
from tests.support.carrier import GATEWAY_CARRIER


def new_canceler(database: Database, wake_ups: WakeUpPublisher, changes: ChangePublisher) -> Canceler:
    return Canceler(database, wake_ups, changes, JobUrls(), GATEWAY_CARRIER)


def new_retrier(database: Database, wake_ups: WakeUpPublisher, changes: ChangePublisher) -> Retrier:
    runs = RunRetrier(database, GATEWAY_CARRIER, Pipelines())
    return Retrier(database, Catalogue(ModelStore(database)), wake_ups, changes, runs)
