"""A database for one test. It is dropped afterwards: a thousand of them would need 12 GB."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from deploy.local.servers.postgres import Postgres


@contextmanager
def temporary_database(postgres: Postgres, template: str = "template0") -> Iterator[str]:
    """Create a database as a copy of an idle one, yield its URL, and drop it.

    Its files are copied. By default PostgreSQL writes all 9 MB into its log, which takes twice the time.
    """
    name = f"test_{uuid4().hex}"
    try:
        postgres.query(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        yield postgres.url_of(name)
    finally:
        postgres.drop_database(name)
