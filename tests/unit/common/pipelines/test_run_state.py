"""How an ended run goes on."""

from common.pipelines.run_state import StepState, StepStatus, begin, resume, stop, sum_inference

WHOLE = StepState(status=StepStatus.SUCCEEDED, total=1, made=1, done=1)


def test_a_resumed_run_keeps_what_succeeded_and_goes_on_with_the_rest() -> None:
    running = StepState(status=StepStatus.RUNNING, total=1000, made=200, done=150)
    ended = stop({"read": WHOLE, "words": running, "check": StepState()}, failed="words")
    resumed = resume(ended, {"read": (1, 1), "words": (200, 152)})  # two have succeeded after the run had ended
    assert resumed == {
        "read": WHOLE,
        "words": StepState(status=StepStatus.RUNNING, total=1000, made=200, done=152),
        "check": StepState(),
    }


def test_a_step_whose_last_job_succeeded_after_the_end_of_the_run_is_over() -> None:
    running = StepState(status=StepStatus.RUNNING, total=2, made=2, done=1)
    assert resume(stop({"words": running}), {"words": (2, 2)})["words"].status is StepStatus.SUCCEEDED


def test_a_step_that_began_without_a_job_makes_all_of_them() -> None:
    """The transaction that began it ended the run."""
    begun = StepState(status=StepStatus.RUNNING, total=3, made=3)
    assert resume(stop({"words": begun}), {}) == {"words": StepState(status=StepStatus.RUNNING, total=3)}


def test_a_run_canceled_before_its_time_begins_from_the_start() -> None:
    assert resume(stop(begin(["a", "b"])), {}) == begin(["a", "b"])


def test_a_resumed_run_counts_what_its_models_work_from_then_on() -> None:
    """Usage has counted the rest with the end of the run."""
    read = StepState(status=StepStatus.SUCCEEDED, total=1, made=1, done=1, inference_ms=7.0)
    words = StepState(status=StepStatus.RUNNING, total=2, made=2, done=1, inference_ms=5.0)
    ended = stop({"read": read, "words": words})
    assert sum_inference(ended) == 12.0
    assert sum_inference(resume(ended, {"read": (1, 1), "words": (2, 1)})) is None
