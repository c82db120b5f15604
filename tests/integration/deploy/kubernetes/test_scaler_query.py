"""The query of the scaler, as helm renders it and as Prometheus evaluates it."""

import subprocess
from pathlib import Path

import yaml

from tests.support.cluster.helm import Object
from tests.support.cluster.scaled_object import NAMESPACE, make_pool, render_scaled_objects

NOW = 600  # seconds; the tests' clock begins at 0
STARTABLE = "charonia_jobs_startable"
JOBS = "charonia_jobs"
COUNTED = "charonia_database_metrics_seconds"
NOBODY = " ".join(["NaN"] * 21)  # of a process that does not count, or cannot


def query(*models: str, **autoscaling: object) -> str:
    return read_query(*render_scaled_objects(make_pool("a", models, **autoscaling)))


def read_query(scaled: Object) -> str:
    found: str = scaled["spec"]["triggers"][0]["metadata"]["query"]
    return found


def sample(metric: str, values: int | str, **labels: str) -> dict[str, str]:
    """Return a series of constant value, in the namespace of the release if the labels name none."""
    text = ", ".join(f'{name}="{value}"' for name, value in ({"namespace": NAMESPACE} | labels).items())
    return {"series": f"{metric}{{{text}}}", "values": f"{values}x20" if isinstance(values, int) else values}


def model(name: str, *, ready: int = 0, running: int = 0, **labels: str) -> list[dict[str, str]]:
    """Return the series of a model as one process exports them. `ready` jobs could start."""
    statuses = (("queued", ready), ("processing", running), ("canceling", 0))
    return [
        sample(STARTABLE, ready, model=name, **labels),
        *(sample(JOBS, number, model=name, status=each, **labels) for each, number in statuses),
    ]


def evaluate(folder: Path, expression: str, series: list[dict[str, str]], *, expected: float | None) -> None:
    """Have Prometheus evaluate the query after ten minutes. None stands for no value."""
    run_tests(folder, describe_test(expression, series, expected))


def describe_test(expression: str, series: list[dict[str, str]], expected: float | None) -> dict[str, object]:
    samples = [] if expected is None else [{"labels": "{}", "value": expected}]
    return {
        "interval": "30s",
        "input_series": series,
        "promql_expr_test": [{"expr": expression, "eval_time": f"{NOW}s", "exp_samples": samples}],
    }


def run_tests(folder: Path, *tests: dict[str, object]) -> None:
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"tests": list(tests)}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_value_is_waiting_and_running_jobs_of_the_pool(tmp_path: Path) -> None:
    series = [*model("llm-a", ready=7, running=2), *model("whisper", running=1), *model("other", ready=100)]
    evaluate(tmp_path, query("llm-*", "whisper"), series, expected=10)


def test_jobs_that_are_scheduled_do_not_count(tmp_path: Path) -> None:
    series = [each for each in model("llm", ready=3) if 'status="queued"' not in each["series"]]
    series.append(sample(JOBS, 50, model="llm", status="queued"))
    evaluate(tmp_path, query("llm"), series, expected=3)


def test_jobs_that_two_processes_export_count_once(tmp_path: Path) -> None:
    series = [*model("llm", ready=7, running=2, instance="new"), *model("llm", ready=5, running=3, instance="old")]
    evaluate(tmp_path, query("llm"), series, expected=10)


def test_canceling_jobs_count_while_they_run(tmp_path: Path) -> None:
    series = [*model("llm"), sample(JOBS, 2, model="llm", status="canceling", instance="b")]
    evaluate(tmp_path, query("llm"), series, expected=2)


def test_idle_pool_has_the_value_zero(tmp_path: Path) -> None:
    evaluate(tmp_path, query("llm"), [*model("llm"), sample(COUNTED, 0)], expected=0)


def test_other_releases_do_not_count(tmp_path: Path) -> None:
    series = [*model("llm", ready=1), *model("llm", ready=9, namespace="other")]
    evaluate(tmp_path, query("llm"), series, expected=1)
    evaluate(tmp_path, query("llm", selector='namespace="other"'), series, expected=9)


def test_pool_whose_models_nobody_knows_starts_one_pod_to_register_them(tmp_path: Path) -> None:
    evaluate(tmp_path, query("llm"), [*model("other", ready=5), sample(COUNTED, 0)], expected=1)


def test_while_nobody_counts_there_is_no_value(tmp_path: Path) -> None:
    evaluate(tmp_path, query("llm"), [sample(COUNTED, NOBODY)], expected=None)
    evaluate(tmp_path, query("llm"), [sample(COUNTED, 0, namespace="other")], expected=None)


def test_patterns_mean_what_they_mean_in_charonia_models(tmp_path: Path) -> None:
    cases = [
        ("*", "anything", True),
        ("llm-*", "llm-", True),
        ("llm-*", "my-llm-1", False),
        ("v1.?", "v1.0", True),
        ("v1.?", "v1x0", False),
        ("v1.?", "v1.", False),
        ("a+b", "a+b", True),
        ("a+b", "aab", False),
        ("a|b", "a", False),
    ]
    pools = [make_pool(f"pool-{number}", [pattern, "none"]) for number, (pattern, _, _) in enumerate(cases)]
    tests = [
        describe_test(
            read_query(scaled), [*model(name, ready=5), *model("none"), sample(COUNTED, 0)], 5 if matches else 0
        )
        for scaled, (_, name, matches) in zip(render_scaled_objects(*pools), cases, strict=True)
    ]
    run_tests(tmp_path, *tests)


def test_pools_that_share_a_model_both_see_its_jobs(tmp_path: Path) -> None:
    pools = make_pool("large", ["llm-*"]), make_pool("small", ["llm-a", "whisper"])
    series = [*model("llm-a", ready=3), *model("whisper", ready=1)]
    for scaled, expected in zip(render_scaled_objects(*pools), (3, 4), strict=True):
        evaluate(tmp_path, read_query(scaled), series, expected=expected)
