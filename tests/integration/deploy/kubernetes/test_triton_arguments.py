"""A Triton takes the arguments of the chart, and loads all models with them."""

from pathlib import Path

import pytest
import yaml

from deploy.docs.chart import VALUES
from deploy.local.processes.ports import free_ports
from deploy.local.servers.triton import Triton
from deploy.local.settings import Settings

SETTINGS = Settings()


def read_flags() -> dict[str, str]:
    """Return the arguments by their names, without the repository, which is another one here."""
    arguments = yaml.safe_load(VALUES.read_text())["poolDefaults"]["triton"]["args"]
    flags = dict(each.removeprefix("--").split("=", 1) for each in arguments)
    assert flags.pop("model-repository") == "/models"
    return flags


@pytest.mark.triton
def test_triton_serves_every_model_with_the_arguments_of_the_chart(tmp_path: Path) -> None:
    grpc, http, metrics = free_ports(3)
    models = SETTINGS.model_repository
    server = Triton(tmp_path, models, grpc, http, metrics, SETTINGS.triton_venv, flags=read_flags())
    try:
        server.start()
        states = {model.name: model.state for model in server.models.list_models()}
    finally:
        server.stop()
    assert states == dict.fromkeys((each.name for each in models.iterdir() if each.is_dir()), "READY")
