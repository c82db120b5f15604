"""Pipelines as the catalogue has models: a pipeline looks like a model."""

from collections.abc import Mapping, Sequence

from services.gateway.auth.model_permissions import may_run
from services.gateway.auth.store import Key
from services.gateway.models.catalogue import find_version, newest
from services.gateway.models.pipeline_store import PipelineKey, PipelineReader, StoredPipeline
from services.gateway.models.store import ModelVersion

Models = Mapping[str, Sequence[ModelVersion]]


async def find_runnable(reader: PipelineReader, caller: Key, key: PipelineKey, models: Models) -> ModelVersion | None:
    """Return a pipeline that a key may run, as a model. A model of the same name comes first."""
    if key.name in models or not may_run(caller.models, key.name):
        return None
    stored = await reader.find(caller.tenant_id, key)
    return None if stored is None else to_model(stored, models)


def to_model(stored: StoredPipeline, models: Models) -> ModelVersion:
    """Return a pipeline as the catalogue has a model. It is ready if the models of all steps are. Pure."""
    reason = find_reason(stored, models)
    return ModelVersion(
        name=stored.name,
        version=str(stored.version),
        ready=reason is None,
        decoupled=False,
        max_batch_size=0,
        inputs=[*stored.inputs],
        outputs=stored.outputs,
        reason=reason,
    )


def find_reason(stored: StoredPipeline, models: Models) -> str | None:
    """Return why a pipeline cannot run now: the first step whose model is not ready. Pure."""
    for name, step in stored.pipeline.definition.steps.items():
        versions = models.get(step.model, [])
        found = None
        if versions:
            found = newest(versions) if step.version is None else find_version(versions, step.version)
        if found is None or not found.ready:
            why = f": {found.reason}" if found is not None and found.reason else ""
            return f"the model '{step.model}' of step '{name}' is not ready{why}"
    return None
