"""The router of all calls about webhooks and deliveries."""

from litestar import Router
from litestar.di import Provide

from services.gateway.webhooks import action_routes, routes, secret_routes
from services.gateway.webhooks.deliveries import routes as delivery_routes
from services.gateway.webhooks.dependencies import WebhookServices
from services.gateway.webhooks.health import routes as health_routes

WEBHOOKS = [
    routes.create_webhook,
    routes.list_webhooks,
    routes.get_webhook,
    routes.change_webhook,
    routes.delete_webhook,
    health_routes.list_webhook_health,
    health_routes.get_webhook_health,
    action_routes.test_webhook,
    action_routes.disable_webhook,
    action_routes.enable_webhook,
    action_routes.create_recovery,
    action_routes.get_recovery,
    secret_routes.rotate_webhook,
    secret_routes.rotate_webhook_secret,
    secret_routes.get_webhook_secret,
]
DELIVERIES = [
    delivery_routes.list_webhook_deliveries,
    delivery_routes.list_job_deliveries,
    delivery_routes.get_delivery,
    delivery_routes.get_delivery_body,
    delivery_routes.redeliver,
]


def make_router(services: WebhookServices) -> Router:
    return Router(
        "/",
        route_handlers=[
            Router("/", route_handlers=WEBHOOKS, tags=["Webhooks"]),
            Router("/", route_handlers=DELIVERIES, tags=["Deliveries"]),
        ],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
    )
