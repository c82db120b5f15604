"""The job requests of the storm, made from a seed and a number, with the expected output of their models. Pure."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.support.api.model_inputs import LINES, fault, picture, work

Response = int | str  # a status; "slow" responds too late, "reset" cuts the connection
SLOW = "slow"
BAD_RESPONSES: tuple[Response, ...] = (500, 503, 429, 404, SLOW, "reset")
WORDS = ("conch", "shell", "trumpet", "sea", "wave", "Triton", "Ångström", "海")
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
DEFAULT_RETRY = {"max_attempts": 8, "initial_delay": 0.2, "max_delay": 2.0}


@dataclass(frozen=True)
class JobRequest:
    """A job to submit. `expected` is the data of one output, or None if the model must fail with `error`."""

    number: int
    kind: str
    model: str
    inputs: dict[str, object]
    output: str
    expected: list[object] | None
    error: str | None = None
    failures: int = 0  # failures of the model before it succeeds
    priority: str = "normal"
    retry: dict[str, float] | None = None
    expires_in: float | None = None
    starts_in: float | None = None
    cancel_after: float | None = None
    retry_once: bool = False  # retry it once if it did not succeed
    responses: tuple[Response, ...] = ()  # responses of its receiver before it accepts the webhook

    @property
    def max_attempts(self) -> int:
        return int((self.retry or DEFAULT_RETRY)["max_attempts"])

    def build_body(self, key: str, callback: str) -> dict[str, object]:
        """Return the body of the request. `key` names this submission."""
        body: dict[str, object] = {
            "model": self.model,
            "inputs": self.inputs | ({"key": [key]} if self.failures else {}),
            "priority": self.priority,
            "metadata": {"key": key},
            "webhook": {"url": callback},
            "retry": self.retry or DEFAULT_RETRY,
        }
        if self.expires_in is not None:
            body["expires_in"] = self.expires_in
        if self.starts_in is not None:
            body["run_at"] = (datetime.now(UTC) + timedelta(seconds=self.starts_in)).isoformat()
        return body


def make_request(seed: int, number: int) -> JobRequest:
    """Return the job request for a seed and a number. It is always the same."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - a test's
    kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    model, inputs, output, expected = choose_model(kind, rng)
    error = {"raise": "inference_failed", "invalid": "invalid_input"}.get(kind)
    failures = {"fail_times": rng.choice((1, 2)), "flaky": 1}.get(kind, 0)
    if failures:
        inputs["value"] = [failures]
    return JobRequest(
        number,
        kind,
        model,
        inputs,
        output,
        expected,
        error,
        failures,
        priority=rng.choice(("high", "normal", "normal", "low")),
        retry=choose_retry(kind, rng),
        expires_in=rng.uniform(1, 5) if rng.random() < 0.03 else None,
        starts_in=rng.uniform(0.5, 4) if rng.random() < 0.03 else None,
        cancel_after=rng.uniform(0, 0.6) if rng.random() < 0.06 else None,
        retry_once=kind == "flaky" or rng.random() < 0.3,
        responses=tuple(rng.choices(BAD_RESPONSES, k=rng.choice((1, 1, 2, 3)))) if rng.random() < 0.08 else (),
    )


def choose_model(kind: str, rng: random.Random) -> tuple[str, dict[str, object], str, list[object] | None]:
    """Return a model, its inputs, the name of an output, and the data expected there."""
    match kind:
        case "echo":
            numbers = [rng.randint(-4000, 4000) / 4 for _ in range(rng.randint(1, 8))]
            return "echo", {"x": [numbers]}, "y", [2 * each for each in numbers]
        case "work":
            ms = rng.choice((5, 20, 50, 100, 400))
            return "work", work(ms), "slept", [ms]
        case "tokens":
            words = rng.choices(WORDS, k=rng.randint(1, 6))
            said: list[object] = [words[0], *(f" {word}" for word in words[1:])]
            return "tokens", {"text": [" ".join(words)], "delay_ms": [rng.choice((0, 0, 2, 10))]}, "token", said
        case "ocr":
            return "ocr", picture(), "text", [*LINES]
        case "flaky" | "fail_times":
            return "faulty", fault("fail_times", 1), "result", ["ok"]
        case _:
            return "faulty", fault(kind), "result", ["ok"] if kind == "ok" else None


def choose_retry(kind: str, rng: random.Random) -> dict[str, float] | None:
    if kind == "flaky":
        return {"max_attempts": 1}
    return {"max_attempts": rng.choice((2, 3)), "initial_delay": 0.1} if kind == "raise" else None
