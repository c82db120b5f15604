"""The screen of `charonia top` fits a terminal of 80x24, whatever there is to show."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from charonia.admin_schemas import JobWindow, QueueStats, Stats
from charonia.cli.terminal.top_view import WIDTHS, Snapshot, TopView, make_rows, show_count, show_wait
from charonia.model_schemas import (
    ModelInfo,
    Percentiles,
    VersionInfo,
)
from charonia.schemas import Priority
from rich.console import Console

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
COLUMNS, ROWS = 80, 24


def make_model(name: str, *, ready: bool = True, paused: bool = False, slots: int = 2) -> ModelInfo:
    return ModelInfo(
        name=name,
        ready=ready,
        streaming=False,
        max_batch_size=0,
        versions=[VersionInfo("1", ready)],
        inputs=[],
        outputs=[],
        queue={},
        slots=slots,
        paused=paused,
    )


def make_queue(
    model: str, priority: Priority, waiting: int, *, rate: float = 0.0, p95: int | None = None
) -> QueueStats:
    window = JobWindow(
        seconds=300.0,
        ended=0,
        failed=0,
        ended_per_minute=rate,
        failed_per_minute=rate / 2,
        queue_ms=Percentiles(p95, p95),
        inference_ms=Percentiles(p95, p95),
    )
    return QueueStats(
        model=model,
        priority=priority,
        waiting=waiting,
        scheduled=0,
        running=1,
        oldest_waiting_at=NOW - timedelta(hours=waiting) if waiting else None,
        last_5_minutes=window,
        last_60_minutes=window,
    )


def make_snapshot(models: list[ModelInfo], queues: list[QueueStats], dead_letters: int = 0) -> Snapshot:
    return Snapshot(stats=Stats(NOW, queues), models=models, dead_letters=dead_letters)


def render(view: TopView, columns: int = COLUMNS, rows: int = ROWS) -> list[str]:
    console = Console(width=columns, height=rows, color_system=None)
    with console.capture() as capture:
        console.print(view)
    return capture.get().splitlines()


def test_a_model_is_one_row_for_all_priorities() -> None:
    queues = [
        make_queue("ocr", "high", 1, rate=4, p95=20),
        make_queue("ocr", "low", 2, rate=8.5, p95=150_000),
        make_queue("gone", "normal", 0),
    ]
    lines = render(TopView("http://a", make_snapshot([make_model("ocr")], queues, dead_letters=100)))
    assert lines[1].strip() == "waiting 3 (1 high, 2 low)  running 3"
    assert lines[2].strip() == "ended 12/min  failed 6.2/min  dead letters 100+"
    assert lines[4].split() == ["MODEL", *WIDTHS]
    assert lines[5].split() == ["ocr", "ready", "3", "2h", "2/2", "12", "6.2", "2m", "2m"]
    assert lines[6].split() == ["gone", "away", "0", "–", "1", "0", "0", "–", "–"]


def test_scheduled_jobs_stand_beside_those_that_wait() -> None:
    later = msgspec.structs.replace(make_queue("ocr", "high", 1), scheduled=1_200)
    lines = render(TopView("http://a", make_snapshot([make_model("ocr")], [later])))
    assert lines[1].strip() == "waiting 1 (1 high)  scheduled 1,200  running 1"


def test_many_models_with_long_names_fit() -> None:
    models = [make_model(f"a-model-with-a-name-of-many-characters-{number}") for number in range(30)]
    models += [make_model("busy", slots=1000), make_model("held", paused=True)]
    snapshot = make_snapshot(models, [make_queue("busy", "normal", 1_234_567, rate=123_456, p95=99_999)])
    lines = render(TopView("http://a-gateway-with-a-very-long-name.example.com:8080/" + "x" * 60, snapshot))
    assert (len(lines), max(map(len, lines))) == (ROWS, COLUMNS)
    assert lines[5].startswith("busy")
    assert "123k" in lines[5]
    assert lines[6].startswith("a-model-with")
    assert "…" in lines[6]
    shown = len([each for each in lines if each.startswith("a-model-with")])
    assert f"… {32 - shown - 1} more" in [each.strip() for each in lines]
    assert lines[-1].startswith("q quits")
    assert max(map(len, render(TopView("http://a", snapshot), 200, 60))) == 200


def test_a_model_that_fits_is_not_left_out() -> None:
    models = [make_model(f"m{number:02}") for number in range(ROWS - 7)]
    lines = render(TopView("http://a", make_snapshot(models, [])))
    assert len(lines) <= ROWS
    assert not [each for each in lines if "more" in each]
    assert [each for each in lines if each.startswith(models[-1].name)]


def test_a_narrow_terminal_keeps_the_names() -> None:
    lines = render(TopView("http://a", make_snapshot([make_model("a-long-name")], [])), 60, 12)
    assert lines[4].split() == ["MODEL", *list(WIDTHS)[:6]]
    assert lines[5].split()[:2] == ["a-long-name", "ready"]


def test_nothing_to_show_is_said() -> None:
    lines = render(TopView("http://a", make_snapshot([], [])))
    assert any("no models" in each for each in lines)
    assert lines[1].strip() == "waiting 0  running 0"


def test_an_outage_is_shown_until_it_ends() -> None:
    snapshot = make_snapshot([make_model("ocr")], [])
    view = TopView("http://a", snapshot)
    view.fail("the connection\nfailed " + "x" * 200)
    lines = render(view)
    assert lines[0].startswith("the gateway is away, numbers are ")
    assert (len(lines[0]), "ocr" in lines[5]) == (COLUMNS, True)
    view.show(snapshot)
    assert render(view)[0].startswith("charonia top  http://a")


def test_the_busiest_model_comes_first() -> None:
    models = [make_model(name) for name in ("b", "a", "busy", "done")]
    queues = [make_queue("done", "low", 0, rate=1), make_queue("busy", "low", 5)]
    assert [row.name for row in make_rows(make_snapshot(models, queues))] == ["busy", "done", "a", "b"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (99_999, "99,999"), (123_456, "123k"), (999_999, "1.0M"), (1_234_567, "1.2M"), (45_600_000, "45.6M")],
)
def test_numbers_stay_short(number: int, text: str) -> None:
    assert show_count(number) == text


def test_waits_stay_short() -> None:
    assert [show_wait(each) for each in (None, 0, 999, 99_999, 150_000, 90_000_000)] == [
        "–",
        "0 ms",
        "999 ms",
        "100.0 s",
        "2m",
        "1d",
    ]
