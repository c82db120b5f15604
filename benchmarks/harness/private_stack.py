"""Starts the private stack of a benchmark."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness.bench import Bench
from benchmarks.harness.counters import OPTIONS
from deploy.local.processes.ports import free_ports
from deploy.local.settings import Settings
from deploy.local.stack import Stack

SLOW = Path(__file__).parents[1] / "models" / "slow.pbtxt"
SETTINGS = {"CHARONIA_RETENTION": str(10 * 365 * 86_400)}  # seconds: the stack removes nothing by itself


@contextmanager
def open_bench(
    directory: Path,
    options: argparse.Namespace,
    environment: Mapping[str, str],
    write_models: Callable[[Path, argparse.Namespace], None] | None = None,
    **counts: int,
) -> Iterator[Bench]:
    """Start a stack with one instance of each service, unless `counts` say otherwise; delete its data at the end.

    `environment` may contain {spans_port}. `write_models` fills the model repository, if it is not that of the demo.
    The variables TRITON_VENV and MODELS_PYTHON hold here too.
    """
    private, (spans_port,) = Settings.private(directory, **counts), free_ports(1)
    variables = {name: value.format(spans_port=spans_port) for name, value in environment.items()}
    models = directory / "models"
    models.mkdir(parents=True)
    if write_models is None:
        link_models(models, private.model_repository)
    else:
        write_models(models, options)
    more: dict[str, Any] = {"environment": SETTINGS | variables, "postgres_options": OPTIONS}
    chosen = Settings.load(os.environ)
    more |= {"triton_venv": chosen.triton_venv, "models_python": chosen.models_python}
    stack = Stack(replace(private, durable=True, model_repository=models, **more))
    with ExitStack() as closing:
        closing.callback(stack.postgres.delete)  # its data may be elsewhere
        yield Bench(closing.enter_context(stack), options, spans_port, closing)


def link_models(models: Path, demo: Path) -> None:
    """Link the demo's models, and `slow`: the program of `work` with a configuration of its own."""
    slow = models / "slow"
    slow.mkdir()
    (slow / "config.pbtxt").symlink_to(SLOW)
    (slow / "1").symlink_to(demo / "work" / "1")
    for model in demo.iterdir():
        (models / model.name).symlink_to(model)
