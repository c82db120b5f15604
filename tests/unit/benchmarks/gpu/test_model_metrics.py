"""What models write on Triton's metrics port."""

from benchmarks.gpu.model_metrics import Work, describe_models, read_work

TEXT = """\
# HELP nv_inference_count Number of inferences performed (does not include cached requests)
# TYPE nv_inference_count counter
nv_inference_count{model="decoder",version="1"} 7
nv_inference_count{model="vision_transformer",version="1"} 120
nv_inference_exec_count{model="vision_transformer",version="1"} 30
benchmark_compute_seconds_total{instance="vision_transformer_0_0"} 1.5
benchmark_compute_seconds_total{instance="vision_transformer_0_1"} 0.25
benchmark_compute_seconds_total{instance="decoder_0_0"} 9
benchmark_model{instance="decoder_0_0",device="cpu",torch="2.13.0+cpu",parameters="168192"} 1
"""


def test_the_instances_of_a_model_are_added_up() -> None:
    assert read_work(TEXT, "vision_transformer") == Work(1.75, 120, 30)
    assert read_work(TEXT, "decoder") == Work(9, 7, 0)


def test_work_is_what_came_between() -> None:
    assert Work(3, 20, 5) - Work(1, 10, 2) == Work(2, 10, 3)


def test_models_say_what_they_are() -> None:
    expected = {"device": "cpu", "torch": "2.13.0+cpu", "parameters": "168192"}
    assert describe_models(TEXT) == {"decoder_0_0": expected}
