"""Parameters of queries that several calls take."""

from typing import Annotated

from litestar.params import Parameter

# PostgreSQL's text has no NUL.
NameFilter = Annotated[str | None, Parameter(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
