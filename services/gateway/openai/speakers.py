"""Decides which models speak OpenAI's API, by the parameters of their config.pbtxt. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus

import msgspec

from common.tensors import Datatype, Signature
from services.gateway.http.problems import Problem
from services.gateway.http.validation.suggestions import list_names, suggest
from services.gateway.models.catalogue import choose, newest
from services.gateway.models.store import ModelVersion
from services.gateway.openai.kinds import embeddings
from services.gateway.openai.kinds.generation import MAX_TOKENS, Kind
from services.gateway.openai.kinds.known import BACKENDS, EMBEDDINGS, GENERATING, KNOWN
from services.gateway.openai.templates.named import NAMED
from services.gateway.openai.templates.rendering import find_syntax_error

KIND, TEMPLATE, TOKENS = "charonia.openai", "charonia.chat_template", "charonia.max_tokens"
BOS, EOS = "charonia.bos_token", "charonia.eos_token"
OFF = "none"  # as KIND: the model does not speak, although its backend is known
MAX_TEMPLATE = 32 * 1024  # characters; a dispatcher publishes one more of a longer one


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """A model that speaks. `template` is Jinja text, or None: it takes no messages, or templates by itself.

    An operator wrote a template that `is_custom`, and its `variables`. `max_tokens` are those of an answer, if the
    request does not say how many.
    """

    model: ModelVersion
    kind: str
    template: str | None = None
    is_custom: bool = False
    variables: Mapping[str, str] = {}
    max_tokens: int = MAX_TOKENS

    @property
    def generates(self) -> Kind | None:
        """The kind, if the model generates text."""
        return GENERATING.get(self.kind)


class Silent(Exception):
    """A model does not speak. `is_wrong`: its configuration wants that it does."""

    def __init__(self, reason: str, *, is_wrong: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_wrong = is_wrong


def read_speaker(model: ModelVersion) -> Speaker:
    """Return how a model speaks. Raises Silent with the reason why it does not."""
    settings = model.settings
    kind = settings.get(KIND) or BACKENDS.get(settings.get("backend", ""), OFF)
    if kind == OFF:
        raise Silent(f"its config.pbtxt has no parameter `{KIND}`; it may be {list_names(KNOWN, '`')}", is_wrong=False)
    if kind not in KNOWN:
        raise Silent(f"`{KIND}` is '{kind[:100]}'; expected one of {list_names(KNOWN, '`')}")
    check_tensors(model, kind)
    template, is_custom = read_template(settings.get(TEMPLATE))
    if template is not None and not (kind in GENERATING and GENERATING[kind].makes_prompts):
        raise Silent(f"`{TEMPLATE}` has no use for the kind `{kind}`; remove it")
    return Speaker(
        model=model,
        kind=kind,
        template=template,
        is_custom=is_custom,
        variables={"bos_token": settings.get(BOS, ""), "eos_token": settings.get(EOS, "")},
        max_tokens=read_max_tokens(settings.get(TOKENS)),
    )


def check_tensors(model: ModelVersion, kind: str) -> None:
    """Raise Silent if a model lacks an input or output of its kind, or needs one that the kind does not have."""
    generates = GENERATING.get(kind)
    inputs = embeddings.INPUTS if generates is None else generates.inputs
    outputs = embeddings.OUTPUTS if generates is None else generates.outputs
    for what, wanted, given in (("input", inputs, model.inputs), ("output", outputs, model.outputs)):
        for wrong in find_missing(wanted, given):
            raise Silent(f"a model of the kind `{kind}` has an {what} {wrong}")
    for signature in model.inputs:
        if signature.name not in inputs and not signature.optional:
            raise Silent(f"its input '{signature.name}' is not optional, and the kind `{kind}` does not have it")
    if kind == EMBEDDINGS and (error := embeddings.find_shape_error(model)):
        raise Silent(error)


def find_missing(wanted: Mapping[str, Datatype], given: Sequence[Signature]) -> Iterator[str]:
    found = {signature.name: signature.datatype for signature in given}
    return (f"'{name}' of {datatype}" for name, datatype in wanted.items() if found.get(name) is not datatype)


def read_template(value: str | None) -> tuple[str | None, bool]:
    """Return the text of a template, and whether an operator wrote it. Raises Silent."""
    if not value:
        return None, False
    if value in NAMED:
        return NAMED[value], False
    if len(value) > MAX_TEMPLATE:
        raise Silent(f"`{TEMPLATE}` has more than {MAX_TEMPLATE} characters")
    if "{" not in value:
        raise Silent(f"`{TEMPLATE}` is '{value[:100]}'; expected Jinja text or one of {list_names(list(NAMED), '`')}")
    if error := find_syntax_error(value):
        raise Silent(f"`{TEMPLATE}` is no Jinja template: {error}")
    return value, True


def read_max_tokens(value: str | None) -> int:
    if value is None:
        return MAX_TOKENS
    if not (value.isascii() and value.isdecimal() and 0 < int(value[:10]) < 2**31):
        raise Silent(f"`{TOKENS}` is '{value[:100]}'; expected a whole number from 1")
    return int(value)


def find_speaker(models: Mapping[str, Sequence[ModelVersion]], name: str) -> Speaker:
    """Return the newest version of a model. Raises Problem (404) if it is unknown or does not speak, or 409."""
    if name not in models:
        speaking = [speaker.model.name for speaker in list_speakers(models)]
        meant = suggest(name, speaking)
        hint = f"did you mean '{meant}'? " if meant else ""
        known = list_names(speaking, "'") or "none"
        text = f"model '{name[:200]}' not found; {hint}models that speak this API: {known}"
        raise Problem(HTTPStatus.NOT_FOUND, "model_not_found", text)
    try:
        return read_speaker(choose(models, name))
    except Silent as silent:
        text = f"the model '{name}' does not speak OpenAI's API: {silent.reason}. Your operator can change that"
        raise Problem(HTTPStatus.NOT_FOUND, "model_not_found", text) from silent


def list_speakers(models: Mapping[str, Sequence[ModelVersion]]) -> Iterator[Speaker]:
    """Yield the newest version of each model that speaks."""
    for versions in models.values():
        try:
            if (model := newest(versions)).declared:
                yield read_speaker(model)
        except Silent:
            continue
