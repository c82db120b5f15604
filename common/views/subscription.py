"""A subscription as the receivers of operational events see it."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.views.job import Time


class DisabledView(msgspec.Struct, frozen=True):
    """A subscription that was disabled."""

    id: str
    """The id of the subscription."""
    url: str
    """The URL of its receiver, without its query."""
    description: str | None
    """Your note on the subscription; null without one."""
    status: Literal["disabled"]
    """The state of the subscription."""
    disabled_at: Time
    """When it was disabled."""
    disabled_reason: Literal["gone", "failing"]
    """`gone` after a 410, or `failing` after days without a success."""


class DisabledBody(msgspec.Struct, frozen=True):
    """The body of a `webhook.disabled` event."""

    type: Annotated[str, Meta(extra_json_schema={"const": "webhook.disabled"})]
    """The type of the event."""
    timestamp: Time
    """When the subscription was disabled."""
    data: DisabledView
    """The disabled subscription."""


class TestData(msgspec.Struct, frozen=True):
    """The subscription that is tested."""

    id: str
    """The id of the subscription."""
    description: str | None
    """Your note on the subscription; null without one."""


class TestBody(msgspec.Struct, frozen=True):
    """The body of a `webhook.test` event."""

    type: Annotated[str, Meta(extra_json_schema={"const": "webhook.test"})]
    """The type of the event."""
    timestamp: Time
    """When the test was requested."""
    data: TestData
    """The subscription that is tested."""
