"""A database for one test. It is dropped afterwards: a thousand of them would need 12 GB."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from deploy.local.servers.postgres import Postgres


@contextmanager
def temporary_database(postgres: Postgres, template: str = "template0") -> Iterator[str]:
    """Create a database as a copy of an idle one, yield its URL, and drop it."""
    name = f"test_{uuid4().hex}"
    try:
        yield postgres.create_database(name, template)
    finally:
        postgres.drop_database(name)
