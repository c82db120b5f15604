"""What the storm asks for: jobs made from a seed and a number, each with what its model must answer. Pure."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.acceptance.samples import LINES, fault, picture, work

Answer = int | str  # a status; "slow" answers too late, "reset" cuts the connection
SLOW = "slow"
OTHER_ANSWERS: tuple[Answer, ...] = (500, 503, 429, 404, SLOW, "reset")
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
PATIENT = {"max_attempts": 8, "initial_delay": 0.2, "max_delay": 2.0}


@dataclass(frozen=True)
class Order:
    """A job to submit. `expected` is the data of one output; None where the model must fail, always with `error`."""

    number: int
    kind: str
    model: str
    inputs: dict[str, object]
    output: str
    expected: list[object] | None
    error: str | None = None
    failures: int = 0  # of the model's own before it answers
    priority: str = "normal"
    retry: dict[str, float] | None = None
    expires_in: float | None = None
    starts_in: float | None = None
    cancel_after: float | None = None
    again: bool = False  # run again once it has ended without success
    answers: tuple[Answer, ...] = ()  # of its receiver, before it takes the webhook

    @property
    def max_attempts(self) -> int:
        return int((self.retry or PATIENT)["max_attempts"])

    def write(self, key: str, callback: str) -> dict[str, object]:
        """The request's body; `key` names this try to submit it."""
        body: dict[str, object] = {
            "model": self.model,
            "inputs": self.inputs | ({"key": [key]} if self.failures else {}),
            "priority": self.priority,
            "metadata": {"key": key},
            "webhook": {"url": callback},
            "retry": self.retry or PATIENT,
        }
        if self.expires_in is not None:
            body["expires_in"] = self.expires_in
        if self.starts_in is not None:
            body["run_at"] = (datetime.now(UTC) + timedelta(seconds=self.starts_in)).isoformat()
        return body


def make_order(seed: int, number: int) -> Order:
    """Always the same for a seed and a number."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - a test's
    kind = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    model, inputs, output, expected = write_question(kind, chance)
    error = {"raise": "inference_failed", "invalid": "invalid_input"}.get(kind)
    failures = {"fail_times": chance.choice((1, 2)), "flaky": 1}.get(kind, 0)
    if failures:
        inputs["value"] = [failures]
    return Order(
        number,
        kind,
        model,
        inputs,
        output,
        expected,
        error,
        failures,
        priority=chance.choice(("high", "normal", "normal", "low")),
        retry=write_retry(kind, chance),
        expires_in=chance.uniform(1, 5) if chance.random() < 0.03 else None,
        starts_in=chance.uniform(0.5, 4) if chance.random() < 0.03 else None,
        cancel_after=chance.uniform(0, 0.6) if chance.random() < 0.06 else None,
        again=kind == "flaky" or chance.random() < 0.3,
        answers=tuple(chance.choices(OTHER_ANSWERS, k=chance.choice((1, 1, 2, 3)))) if chance.random() < 0.08 else (),
    )


def write_question(kind: str, chance: random.Random) -> tuple[str, dict[str, object], str, list[object] | None]:
    """The model, its inputs, and the data it must answer under the name of an output."""
    match kind:
        case "echo":
            numbers = [chance.randint(-4000, 4000) / 4 for _ in range(chance.randint(1, 8))]
            return "echo", {"x": [numbers]}, "y", [2 * each for each in numbers]
        case "work":
            ms = chance.choice((5, 20, 50, 100, 400))
            return "work", work(ms), "slept", [ms]
        case "tokens":
            words = chance.choices(WORDS, k=chance.randint(1, 6))
            return "tokens", {"text": [" ".join(words)], "delay_ms": [chance.choice((0, 0, 2, 10))]}, "token", [*words]
        case "ocr":
            return "ocr", picture(), "text", [*LINES]
        case "flaky" | "fail_times":
            return "faulty", fault("fail_times", 1), "result", ["ok"]
        case _:
            return "faulty", fault(kind), "result", ["ok"] if kind == "ok" else None


def write_retry(kind: str, chance: random.Random) -> dict[str, float] | None:
    if kind == "flaky":
        return {"max_attempts": 1}
    return {"max_attempts": chance.choice((2, 3)), "initial_delay": 0.1} if kind == "raise" else None
