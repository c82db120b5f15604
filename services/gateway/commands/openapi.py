"""Print the OpenAPI document: `python -m services.gateway.commands.openapi`. Connects to nothing."""

import asyncio
import sys
import warnings

import msgspec
from litestar import Litestar

from common.locations.buckets import Buckets
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.gateway.auth.authentication import KeyCache
from services.gateway.auth.store import KeyStore
from services.gateway.events.feed.feed import EventFeed
from services.gateway.events.feed.store import FeedStore
from services.gateway.events.store import EventStore
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from services.gateway.http.worker_processes import Workers
from services.gateway.openapi.document import describe
from services.gateway.settings import GatewaySettings

DATABASE, BROKER, STORE = "postgresql://127.0.0.1:1/none", "amqp://127.0.0.1:1/", "s3://none"
KEY = "A" * 43 + "="


async def build_unconnected() -> Litestar:
    """Return the gateway without its servers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what Litestar 3 will take away
        from services.gateway.app.application import build
        from services.gateway.app.composition import Connections

        settings = GatewaySettings(
            database_url=DATABASE,
            amqp_url=BROKER,
            store_url=STORE,
            port=1,
            encryption_keys=(KEY,),
            url_keys=(KEY,),
        )
        database = await Database.connect(DATABASE, application="openapi")
        publisher = Publisher(BROKER, "openapi")
        waiters = Waiters(EventStore(database), WaiterPresence(publisher), lambda: False)
        feed = EventFeed(FeedStore(database), waiters, settings.heartbeat)
        wake_ups = WakeUpPublisher(publisher)
        keys = KeyCache(KeyStore(database))
        tasks = waiters, feed, keys, Workers(), Workers(), ObjectStore(STORE), Buckets(1.0)
        return build(settings, Connections(database, publisher, wake_ups, *tasks)).app


def main() -> None:
    document = describe(asyncio.run(build_unconnected()))
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


if __name__ == "__main__":
    main()
