"""The notifier's settings."""

from typing import Annotated

from msgspec import Meta

from common.errors import SettingsError
from common.settings import EgressProxy, Period, Settings

HOUR = 3600.0
DAY = 24 * HOUR
Delay = Annotated[float, Meta(ge=0, le=30 * DAY)]


class NotifierSettings(Settings, frozen=True, kw_only=True):
    encryption_keys: tuple[str, ...]
    """The same keys as the gateway has. They decrypt the secrets of subscriptions."""
    webhook_networks: tuple[str, ...] = ()
    """Networks that webhooks may go to although they are not public, such as `10.1.0.0/16`. Set the gateway to the
    same."""
    webhook_http: bool = False
    """Whether webhooks may go to plain http. Set the gateway to the same."""
    egress_proxy: EgressProxy = ""
    """A proxy for all webhooks: `http://[user:password@]host:port`. It resolves names itself, so let it refuse private
    networks."""
    delivery_timeout: Annotated[float, Meta(gt=0, le=300)] = 15.0
    """Seconds one delivery attempt may take."""
    delivery_schedule: tuple[Delay, ...] = (
        0,
        5,
        300,
        1800,
        2 * HOUR,
        5 * HOUR,
        10 * HOUR,
        14 * HOUR,
        20 * HOUR,
        DAY,
    )
    """Seconds before each attempt. After the last one the delivery is `exhausted`."""
    delivery_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 640
    """Concurrent attempts of one notifier. One tenant may have half of them."""
    endpoint_concurrency: Annotated[int, Meta(ge=1, le=1000)] = 32
    """Concurrent attempts to one endpoint, over all notifiers."""
    disable_after: Period = 5 * DAY
    """Seconds a subscription may fail without one success before it is disabled."""
    retention: Period = 30 * DAY
    """Seconds the record of a finished recovery is kept."""
    recovery_rate: Annotated[float, Meta(gt=0, le=10_000)] = 50.0
    """Deliveries a second that a recovery sends again."""

    def __post_init__(self) -> None:
        if not self.delivery_schedule:
            raise SettingsError("CHARONIA_DELIVERY_SCHEDULE is wrong: it needs at least one number of seconds")
