"""The services that the handlers of OpenAI's API receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from services.gateway.auth.authentication import Authenticator
from services.gateway.events.waiters import Waiters
from services.gateway.models.catalogue import Catalogue
from services.gateway.openai.calls.answer import Answers
from services.gateway.openai.calls.streams import Streams
from services.gateway.openai.calls.submission import Submission


@dataclass(frozen=True)
class OpenAIServices:
    authenticator: Authenticator
    catalogue: Catalogue
    submission: Submission
    answers: Answers
    streams: Streams
    waiters: Waiters


Services = NamedDependency[SkipValidation[OpenAIServices]]
