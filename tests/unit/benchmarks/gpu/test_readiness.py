"""What the gateway says of the models, once all dispatchers run them."""

from benchmarks.gpu.readiness import count_slots, read_slots
from benchmarks.gpu.sizes import SIZES
from services.dispatcher.models import concurrency


def test_slots_are_counted_as_the_dispatcher_counts_them() -> None:
    size = SIZES["base"]
    assert count_slots(size, 4) == {
        "vision_transformer": 4 * concurrency.count_slots(size.instances, size.batch),
        "decoder": 4 * concurrency.count_slots(1, size.streams),
    }


def test_a_model_that_is_not_ready_has_no_slots() -> None:
    decoder, vision = {"name": "decoder", "ready": True, "slots": 16}, {"name": "vit", "ready": False, "slots": 0}
    assert read_slots([decoder, vision]) == {"decoder": 16}
