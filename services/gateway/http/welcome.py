"""`GET /`: what this is, and where to go on."""

import msgspec
from litestar import Router, get

from common import VERSION

DESCRIPTION = "Asynchronous inference for NVIDIA Triton: submit jobs, follow them, and receive their results."
AUTHENTICATION = "Send the header 'Authorization: Bearer <key>' with every call under /v1, /v2 and /openai/v1."


class Welcome(msgspec.Struct, frozen=True):
    """What this API is, and the paths of its documentation."""

    name: str
    """Always `charonia`."""
    description: str
    """What it is for."""
    version: str
    """The version of Charonia."""
    authentication: str
    """How to send a key."""
    console: str
    """The path of the console, for people."""
    docs: str
    """The path of the documentation."""
    openapi: str
    """The path of the OpenAPI document."""
    jobs: str
    """The path of the jobs."""
    models: str
    """The path of the model catalogue."""
    health: str
    """The path of the readiness."""


WELCOME = Welcome(
    name="charonia",
    description=DESCRIPTION,
    version=VERSION,
    authentication=AUTHENTICATION,
    console="/console",
    docs="/docs",
    openapi="/openapi.json",
    jobs="/v1/jobs",
    models="/v1/models",
    health="/readyz",
)


@get("/", summary="What this is, and where its documentation is", operation_id="welcome", security=[{}])
async def welcome() -> Welcome:
    """Return the paths of the documentation and of the first calls. It needs no key."""
    return WELCOME


router = Router("/", route_handlers=[welcome], tags=["Operations"])
