"""The services that the handlers of jobs receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from common.security.signed_urls import UrlSigner
from common.views.job import JobUrls
from services.gateway.auth.authentication import Authenticator
from services.gateway.events.dependencies import EventServices
from services.gateway.events.waiters import Waiters
from services.gateway.jobs.actions.cancel import Canceler
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.jobs.actions.retry import Retrier
from services.gateway.jobs.runs.views import RunViewer
from services.gateway.jobs.store import JobStore
from services.gateway.jobs.submit import Submitter
from services.gateway.jobs.wait_reasons import WaitExplainer


@dataclass(frozen=True)
class JobServices:
    authenticator: Authenticator
    store: JobStore
    submitter: Submitter
    canceler: Canceler
    retrier: Retrier
    eraser: Eraser
    waiters: Waiters
    events: EventServices
    waits: WaitExplainer
    runs: RunViewer
    signer: UrlSigner
    urls: JobUrls


Services = NamedDependency[SkipValidation[JobServices]]
