"""The notifier's settings."""

from typing import Annotated

from msgspec import Meta

from common.errors import SettingsError
from common.settings import Settings

HOUR = 3600.0
DAY = 24 * HOUR
Delay = Annotated[float, Meta(ge=0, le=30 * DAY)]


class NotifierSettings(Settings, frozen=True, kw_only=True):
    encryption_keys: tuple[str, ...]
    allowed_networks: tuple[str, ...] = ()  # where webhooks may go although it is not the public internet
    allow_http: bool = False
    egress_proxy: Annotated[str, Meta(pattern=r"^(https?://[^/\s]+/?)?$")] = ""  # all webhooks go through it
    delivery_timeout: Annotated[float, Meta(gt=0, le=300)] = 15.0  # seconds of one attempt, all in all
    # Seconds before each attempt; what comes after the last is `exhausted`.
    delivery_schedule: tuple[Delay, ...] = (
        *(0, 5, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, DAY),
    )
    delivery_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 640  # attempts under way at a time, all in all
    endpoint_concurrency: Annotated[int, Meta(ge=1, le=1000)] = 32  # attempts under way at a time to one endpoint
    disable_after: Annotated[float, Meta(gt=0)] = 5 * DAY  # seconds a subscription may fail without one success
    retention: Annotated[float, Meta(gt=0)] = 30 * DAY  # seconds an operational event is kept, with its deliveries
    recovery_rate: Annotated[float, Meta(gt=0, le=10_000)] = 50.0  # deliveries a second that a recovery re-sends

    def __post_init__(self) -> None:
        if not self.delivery_schedule:
            raise SettingsError("CHARONIA_DELIVERY_SCHEDULE is wrong: it needs at least one number of seconds")
