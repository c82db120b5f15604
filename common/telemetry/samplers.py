"""Which spans are sampled, by OpenTelemetry's variables."""

from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from common.errors import SettingsError

SAMPLER, RATIO = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_SAMPLERS = ("always_on", "always_off", "traceidratio")  # each also as parentbased_…
_PARENT_BASED = "parentbased_"


class LinkedSampler(Sampler):
    """Samples a root span with links as its links are: the jobs of a batch as the batch's request."""

    def __init__(self, without_links: Sampler) -> None:
        self._without_links = without_links

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Return the decision."""
        chosen = self._without_links
        if links:
            chosen = ALWAYS_ON if any(link.context.trace_flags.sampled for link in links) else ALWAYS_OFF
        return chosen.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        """Return the name."""
        return f"LinkedSampler{{{self._without_links.get_description()}}}"


class RecordingSampler(Sampler):
    """Records spans that are not sampled, with their first attributes. The SDK's AlwaysRecordSampler drops those."""

    def __init__(self, root: Sampler) -> None:
        self._root = root

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Return the decision."""
        found = self._root.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)
        if found.decision is Decision.DROP:
            return SamplingResult(Decision.RECORD_ONLY, attributes, found.trace_state)
        return found

    def get_description(self) -> str:
        """Return the name."""
        return f"RecordingSampler{{{self._root.get_description()}}}"


def read_sampler(environ: Mapping[str, str]) -> Sampler:
    """Return the sampler that OpenTelemetry's variables describe. The default samples unless the parent does not.

    Raise SettingsError if they are wrong.
    """
    name = environ.get(SAMPLER) or "parentbased_always_on"
    kind = name.removeprefix(_PARENT_BASED)
    if kind not in _SAMPLERS:
        known = ", ".join([*_SAMPLERS, *(_PARENT_BASED + each for each in _SAMPLERS)])
        raise SettingsError(f"{SAMPLER} is wrong: expected one of {known}")
    root: Sampler
    if kind == "traceidratio":
        root = TraceIdRatioBased(_read_ratio(environ.get(RATIO) or "1"))
    else:
        root = ALWAYS_ON if kind == "always_on" else ALWAYS_OFF
    return ParentBased(LinkedSampler(root)) if name.startswith(_PARENT_BASED) else root


def _read_ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise SettingsError(f"{RATIO} is wrong: expected a number from 0 to 1")
    return ratio
