"""The services that the handlers of OpenAI's API receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from common.object_store.store import ObjectStore
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.dependencies import JobServices
from services.gateway.models.catalogue import Catalogue
from services.gateway.open_inference.inference import Inference
from services.gateway.openai.calls.answer import Answers
from services.gateway.openai.calls.outputs import OutputReader
from services.gateway.openai.calls.streams import Streams
from services.gateway.openai.calls.submission import Submission


@dataclass(frozen=True)
class OpenAIServices:
    catalogue: Catalogue
    submission: Submission
    answers: Answers
    streams: Streams
    jobs: JobServices


Services = NamedDependency[SkipValidation[OpenAIServices]]


def compose_openai(
    jobs: JobServices, inference: Inference, catalogue: Catalogue, objects: ObjectStore, template_workers: Workers
) -> OpenAIServices:
    """Create the services around those of jobs. `template_workers` render templates that operators wrote."""
    answers = Answers(inference, OutputReader(objects))
    return OpenAIServices(
        catalogue=catalogue,
        submission=Submission(jobs.submitter, jobs.submitter.workers, template_workers),
        answers=answers,
        streams=Streams(jobs.events.history, jobs.authenticator, answers),
        jobs=jobs,
    )
