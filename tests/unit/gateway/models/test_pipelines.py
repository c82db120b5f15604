"""A pipeline as the catalogue shows it."""

import pytest

from common import ids
from common.tensors import Datatype, Signature
from services.gateway.models.pipeline_store import PipelineKey, PipelineReader
from services.gateway.models.pipelines import find_reason, to_model
from services.gateway.models.store import ModelVersion
from tests.unit.fake_database import FakeDatabase
from tests.unit.gateway.stored_pipelines import DEFINITION, INPUTS, new_stored


def echo(version: str = "1", *, ready: bool = True, reason: str | None = None) -> ModelVersion:
    return ModelVersion("echo", version, ready, False, 0, [], [], reason=reason)


def test_a_pipeline_looks_like_a_model() -> None:
    model = to_model(new_stored(), {"echo": [echo()]})
    assert (model.name, model.version, model.ready, model.reason) == ("chain", "3", True, None)
    assert (model.max_batch_size, model.decoupled, model.declared) == (0, False, True)
    assert model.inputs == INPUTS
    assert model.outputs == [Signature("result", Datatype.FP32, [-1]), Signature("all", Datatype.FP32, [-1, 2])]


@pytest.mark.parametrize(
    ("models", "version", "reason"),
    [
        ([echo()], None, None),
        ([echo(), echo("2", ready=False)], None, None),  # the newest one that is ready
        ([], None, "the model 'echo' of step 'first' is not ready"),
        ([echo(ready=False, reason="no memory")], None, "the model 'echo' of step 'first' is not ready: no memory"),
        ([echo()], "1", None),
        ([echo()], "2", "the model 'echo' of step 'first' is not ready"),
    ],
)
def test_a_pipeline_is_ready_if_the_models_of_all_steps_are(
    models: list[ModelVersion], version: str | None, reason: str | None
) -> None:
    first = DEFINITION["steps"]["first"] | {"version": version}
    stored = new_stored(steps={"first": first, "each": DEFINITION["steps"]["each"]})
    assert find_reason(stored, {"echo": models} if models else {}) == reason


@pytest.mark.parametrize(
    "key", [PipelineKey("a\0b"), *(PipelineKey("a", text) for text in ("0", "x", "1.0", "9" * 10))]
)
async def test_what_no_pipeline_can_be_is_not_looked_up(key: tuple[str, str | None]) -> None:
    assert await PipelineReader(FakeDatabase()).find(ids.new(), PipelineKey(*key)) is None
