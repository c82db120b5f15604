"""The router of all calls about jobs."""

from litestar import Router
from litestar.di import Provide

from services.gateway.jobs import dead_letter_routes, read_routes, routes
from services.gateway.jobs.dependencies import JobServices

HANDLERS = [
    read_routes.get_job,
    read_routes.list_jobs,
    read_routes.list_attempts,
    read_routes.get_inputs,
    read_routes.get_outputs,
    routes.cancel_job,
    routes.retry_job,
    routes.erase_job,
    dead_letter_routes.list_dead_letters,
    dead_letter_routes.replay_dead_letters,
]


def make_router(services: JobServices, max_body: int) -> Router:
    """`max_body` limits a submitted job, in bytes."""
    submit = Router("/", route_handlers=[routes.submit_job], request_max_body_size=max_body)
    return Router(
        "/",
        route_handlers=[submit, *HANDLERS],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Jobs"],
    )
