"""Chooses the models of a pipeline's steps. Pure."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from common.pipelines.definition import StepDefinition
from services.gateway.auth.model_permissions import Allowed, check_model, select_models
from services.gateway.http.problems import MAX_ERRORS, FieldError, Problem, invalid
from services.gateway.models.catalogue import choose
from services.gateway.models.store import ModelVersion


class StepModels(NamedTuple):
    """The models of a step."""

    model: ModelVersion
    fallback: ModelVersion | None  # None: there is none, or it cannot be used


def choose_models(
    steps: Mapping[str, StepDefinition], models: Mapping[str, Sequence[ModelVersion]], allowed: Allowed
) -> tuple[dict[str, StepModels], list[FieldError]]:
    """Return the models of the steps, and every model that cannot be used. The steps of those are left out.

    It stops at MAX_ERRORS.
    """
    chosen: dict[str, StepModels] = {}
    errors: list[FieldError] = []
    for name, step in steps.items():
        if len(errors) >= MAX_ERRORS:
            break
        model = fallback = None
        try:
            model = choose_model(models, allowed, step.model, step.version)
        except Problem as problem:
            errors.append(FieldError(f"/steps/{name}/{blame_field(step, models, problem)}", problem.detail))
        if step.fallback_model is not None:
            try:
                fallback = choose_model(models, allowed, step.fallback_model)
            except Problem as problem:
                errors.append(FieldError(f"/steps/{name}/fallback_model", problem.detail))
        if model is not None:
            chosen[name] = StepModels(model, fallback)
    return chosen, errors


def choose_model(
    models: Mapping[str, Sequence[ModelVersion]], allowed: Allowed, name: str, version: str | None = None
) -> ModelVersion:
    """Return the version that a job would run. Raises Problem if there is none, or if no step can run it."""
    check_model(allowed, name)
    found = choose(select_models(allowed, models), name, version)
    if found.decoupled:
        raise invalid(FieldError("", f"model '{name}' is decoupled; a step needs a model that sends one response"))
    return found


def blame_field(step: StepDefinition, models: Mapping[str, Sequence[ModelVersion]], problem: Problem) -> str:
    """Return the field that names an unknown version, or else an unusable model."""
    is_version = step.version is not None and step.model in models and problem.status is HTTPStatus.NOT_FOUND
    return "version" if is_version else "model"
