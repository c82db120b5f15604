"""A stack whose dispatchers load the models does not load them itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.settings import Settings
from deploy.local.stack import Stack


@pytest.mark.parametrize("environment", [{}, {"CHARONIA_MODEL_MEMORY": "1 GiB"}])
def test_the_dispatchers_learn_what_models_take(tmp_path: Path, environment: dict[str, str]) -> None:
    stack = Stack(replace(Settings.private(tmp_path), environment=environment))
    measured = stack.environment.get("CHARONIA_TRITON_METRICS_URL")
    assert measured == (stack.triton.metrics_url if environment else None)
    assert stack.triton.loads_models is not bool(environment)
