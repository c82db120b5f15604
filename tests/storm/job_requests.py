"""The job requests of the storm, made from a seed and a number, with what must come of them. Pure."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tests.storm.pipelines import WORDS, StepRequest, choose_run
from tests.support.api.model_inputs import LINES, fault, picture, work

Response = int | str  # a status; "slow" responds too late, "reset" cuts the connection
SLOW = "slow"
BAD_RESPONSES: tuple[Response, ...] = (500, 503, 429, 404, SLOW, "reset")
WEIGHTS = {
    "echo": 42,
    "work": 20,
    "tokens": 15,
    "ok": 6,
    "raise": 4,
    "invalid": 4,
    "fail_times": 6,
    "flaky": 2,
    "ocr": 1,
}
# The pipelines, among jobs. `fallback` and `broken` are rare: what fails runs several times, and `faulty` has one slot.
RUN_WEIGHTS = {"chain": 3, "each": 2, "fallback": 1, "broken": 1}
TWIN_KINDS = ("echo", "work", "tokens")  # whose jobs may ask the same as others
TWINS = 0.15  # of them
GROUP = 60  # numbers in a row, whose twins of a kind ask the same
MAX_AGE = 3600  # seconds, longer than a storm
DEFAULT_RETRY = {"max_attempts": 8, "initial_delay": 0.2, "max_delay": 2.0}


@dataclass(frozen=True)
class JobRequest:
    """A job to submit. `expected` has the data of outputs by name; None if the job must fail with `error`.

    A run has `steps`, and the name of its pipeline as `kind` and `model`.
    """

    number: int
    kind: str
    model: str
    inputs: dict[str, object]
    expected: dict[str, list[object]] | None
    error: str | None = None
    failures: int = 0  # failures of the model before it succeeds
    priority: str = "normal"
    retry: dict[str, float] | None = None
    expires_in: float | None = None
    starts_in: float | None = None
    cancel_after: float | None = None
    retry_once: bool = False  # retry it once if it did not succeed
    responses: tuple[Response, ...] = ()  # responses of its receiver before it accepts the webhook
    keyed: bool = False  # submit it with an idempotency key
    erase: bool = False  # erase it once both receivers have its last end
    reuses: bool = False  # it takes the result of a job with the same inputs, or waits for it
    timeout: float | None = None  # the deadline of a run, in seconds
    steps: Mapping[str, StepRequest] = field(default_factory=dict)

    @property
    def is_run(self) -> bool:
        return bool(self.steps)

    @property
    def needs_key(self) -> bool:
        """Whether its model counts failures by a key."""
        return bool(self.failures) or self.kind in ("fallback", "broken")

    @property
    def max_attempts(self) -> int:
        return int((self.retry or DEFAULT_RETRY)["max_attempts"])

    def build_body(self, key: str, callback: str) -> dict[str, object]:
        """Return the body of the request. `key` names this submission."""
        body: dict[str, object] = {
            "model": self.model,
            "inputs": self.inputs | ({"key": [key]} if self.needs_key else {}),
            "priority": self.priority,
            "metadata": {"key": key},
            "webhook": {"url": callback},
        }
        if not self.is_run:
            body["retry"] = self.retry or DEFAULT_RETRY
        if self.reuses:
            body["reuse"] = {"max_age": MAX_AGE}
        if self.timeout is not None:
            body["timeout"] = self.timeout
        if self.expires_in is not None:
            body["expires_in"] = self.expires_in
        if self.starts_in is not None:
            body["run_at"] = (datetime.now(UTC) + timedelta(seconds=self.starts_in)).isoformat()
        return body


def make_request(seed: int, number: int, *, runs: bool = True) -> JobRequest:
    """Return the job request for a seed and a number. It is always the same.

    Without `runs`, it is what the release before knows: no run, and no job that asks the same as others.
    """
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - a test's
    weights = WEIGHTS | RUN_WEIGHTS if runs else WEIGHTS
    kind = rng.choices(list(weights), list(weights.values()))[0]
    request = make_run(kind, number, rng) if kind in RUN_WEIGHTS else make_job(kind, number, rng)
    request = replace(
        request,
        priority=rng.choice(("high", "normal", "normal", "low")),
        starts_in=rng.uniform(0.5, 4) if rng.random() < 0.03 else None,
        cancel_after=rng.uniform(0, 0.6) if rng.random() < (0.15 if request.is_run else 0.06) else None,
        retry_once=request.retry_once or rng.random() < (0.5 if request.is_run else 0.3),
        responses=tuple(rng.choices(BAD_RESPONSES, k=rng.choice((1, 1, 2, 3)))) if rng.random() < 0.08 else (),
        keyed=rng.random() < 0.2,
        erase=rng.random() < (0.25 if request.is_run else 0.05),
    )
    if not runs or kind not in TWIN_KINDS or rng.random() >= TWINS:
        return request
    same = random.Random(f"{seed}/{kind}/{number // GROUP}")  # noqa: S311 - a test's
    model, inputs, expected = choose_model(kind, same)
    return replace(request, model=model, inputs=inputs, expected=expected, reuses=True, starts_in=None)


def make_job(kind: str, number: int, rng: random.Random) -> JobRequest:
    model, inputs, expected = choose_model(kind, rng)
    error = {"raise": "inference_failed", "invalid": "invalid_input"}.get(kind)
    failures = {"fail_times": rng.choice((1, 2)), "flaky": 1}.get(kind, 0)
    if failures:
        inputs["value"] = [failures]
    return JobRequest(
        number,
        kind,
        model,
        inputs,
        expected,
        error,
        failures,
        retry=choose_retry(kind, rng),
        expires_in=rng.uniform(1, 5) if rng.random() < 0.03 else None,
        retry_once=kind == "flaky",
    )


def make_run(pipeline: str, number: int, rng: random.Random) -> JobRequest:
    inputs, expected, steps = choose_run(pipeline, rng)
    error = "step_failed" if expected is None else None
    timeout = rng.uniform(0.1, 3) if rng.random() < 0.1 else None
    is_flaky = pipeline == "broken" and expected is not None
    return JobRequest(
        number, pipeline, pipeline, inputs, expected, error, timeout=timeout, steps=steps, retry_once=is_flaky
    )


def choose_model(kind: str, rng: random.Random) -> tuple[str, dict[str, object], dict[str, list[object]] | None]:
    """Return a model, its inputs, and the data expected of an output."""
    match kind:
        case "echo":
            numbers = [rng.randint(-4000, 4000) / 4 for _ in range(rng.randint(1, 8))]
            return "echo", {"x": [numbers]}, {"y": [2 * each for each in numbers]}
        case "work":
            ms = rng.choice((5, 20, 50, 100, 400))
            return "work", work(ms), {"slept": [ms]}
        case "tokens":
            words = rng.choices(WORDS, k=rng.randint(1, 6))
            said: list[object] = [words[0], *(f" {word}" for word in words[1:])]
            return "tokens", {"text": [" ".join(words)], "delay_ms": [rng.choice((0, 0, 2, 10))]}, {"token": said}
        case "ocr":
            return "ocr", picture(), {"text": [*LINES]}
        case "flaky" | "fail_times":
            return "faulty", fault("fail_times", 1), {"result": ["ok"]}
        case _:
            return "faulty", fault(kind), {"result": ["ok"]} if kind == "ok" else None


def choose_retry(kind: str, rng: random.Random) -> dict[str, float] | None:
    if kind == "flaky":
        return {"max_attempts": 1}
    return {"max_attempts": rng.choice((2, 3)), "initial_delay": 0.1} if kind == "raise" else None
