"""What the translations of all calls share: a request of OpenAI becomes a job that remembers it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from common.job_options import Name, Reuse
from common.job_states import Priority
from common.jobs.new_job import NewJob
from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError
from services.gateway.jobs.parse import SubmitContext, add_request_key, build_job, build_valid_job, check_permissions
from services.gateway.jobs.schemas import SubmitJob
from services.gateway.openai.calls.record import Endpoint, write_record
from services.gateway.openai.kinds.generation import Generation, Inputs
from services.gateway.openai.problems import unsupported
from services.gateway.openai.speakers import Speaker, find_speaker

MetadataText = Annotated[str, Meta(max_length=512)]
Metadata = Annotated[dict[Annotated[str, Meta(max_length=64)], MetadataText], Meta(max_length=16)]
Tier = Literal["auto", "default", "flex", "priority"]
PRIORITIES = {"default": Priority.NORMAL, "flex": Priority.LOW, "priority": Priority.HIGH}
SHOWN_TIERS = {Priority.LOW: "flex", Priority.NORMAL: "default", Priority.HIGH: "priority"}


class NeedsWorker(Exception):
    """A request needs a template that an operator wrote. Only a process that can be stopped may render it."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer needs of a request."""

    model: str
    stream: bool = False
    include_usage: bool = False
    stop: Sequence[str] = ()
    max_tokens: int | None = None
    prefix: str = ""  # of the text: the prompt, if it is to be echoed
    is_base64: bool = False  # of embeddings
    texts: int = 1  # to embed


class Translated(NamedTuple):
    """The job of a request, and what its answer needs of the request."""

    job: NewJob
    shown: Shown


# Called with the body, the context, and whether this is a process for templates. Raises Problem, and NeedsWorker.
Translate: TypeAlias = Callable[[bytes, SubmitContext, bool], Translated]
Reshow: TypeAlias = Callable[[bytes], Shown]


def read_model(context: SubmitContext, name: str) -> Speaker:
    """Return the model of a request. Raises Problem (403, 404, 409)."""
    check_permissions(SubmitJob(model=name, inputs={}), context.allowed)
    return find_speaker(context.models, name)


def check_abilities(generation: Generation, speaker: Speaker, errors: list[FieldError]) -> None:
    """Raise Problem (400) if there are errors, or the model cannot do what a request asks for."""
    assert speaker.generates is not None, "the caller has checked the kind"
    if found := [*errors, *speaker.generates.refuse(generation, speaker.model)]:
        raise unsupported(*found)


def build(
    endpoint: Endpoint,
    body: bytes,
    context: SubmitContext,
    speaker: Speaker,
    inputs: Inputs,
    *,
    tier: Tier | None = None,
    metadata: Mapping[str, str] | None = None,
    reuse: Reuse | msgspec.UnsetType | None = msgspec.UNSET,
) -> NewJob:
    """Return the job of a request. Raises Problem (422) for inputs that the model does not take."""
    request = SubmitJob(
        model=speaker.model.name,
        inputs=inputs,
        priority=context.priority if tier in (None, "auto") else PRIORITIES[tier],
        metadata=dict[str, Any](metadata) if metadata else None,
        reuse=reuse,
    )
    return msgspec.structs.replace(build_valid_job(request, context), request=write_record(endpoint, body))


class Repeated(msgspec.Struct, frozen=True):
    """What a repeated request is answered with. A gateway of a later release may have accepted the rest."""

    model: Name
    service_tier: str | None = None
    metadata: dict[str, Any] | None = None


def rebuild(body: bytes, context: SubmitContext) -> NewJob:
    """Return the job of a request that was accepted before, as far as its answer shows it. Raises Problem (403)."""
    repeated: Repeated = decode_body(body, Repeated)
    priority = PRIORITIES.get(repeated.service_tier or "auto", Priority.NORMAL)
    request = SubmitJob(model=repeated.model, inputs={}, priority=priority, metadata=repeated.metadata)
    check_permissions(request, context.allowed)
    return add_request_key(build_job(context.tenant_id, request, [], context.traceparent), context.request_key)
