"""The services that the handlers of events receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from services.gateway.auth.authentication import Authenticator
from services.gateway.events.history import JobHistory


@dataclass(frozen=True)
class EventServices:
    authenticator: Authenticator
    history: JobHistory


Services = NamedDependency[SkipValidation[EventServices]]
