"""Starts the private stack of a benchmark."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness.bench import Bench
from benchmarks.harness.counters import OPTIONS
from deploy.local.ports import free_ports
from deploy.local.settings import Settings
from deploy.local.stack import Stack

SLOW = Path(__file__).parents[1] / "models" / "slow.pbtxt"
SETTINGS = {"CHARONIA_RETENTION": str(10 * 365 * 86_400)}  # seconds: the stack removes nothing by itself


@contextmanager
def open_bench(
    directory: Path, options: argparse.Namespace, environment: Mapping[str, str], **counts: int
) -> Iterator[Bench]:
    """Start a stack with one instance of each service, unless `counts` say otherwise; delete its data at the end.

    `environment` may contain {spans_port}.
    """
    private, (spans_port,) = Settings.private(directory, **counts), free_ports(1)
    variables = {name: value.format(spans_port=spans_port) for name, value in environment.items()}
    models, slow = directory / "models", directory / "models" / "slow"
    slow.mkdir(parents=True)  # the program of `work` with a configuration of its own
    (slow / "config.pbtxt").symlink_to(SLOW)
    (slow / "1").symlink_to(private.model_repository / "work" / "1")
    for model in private.model_repository.iterdir():
        (models / model.name).symlink_to(model)
    more: dict[str, Any] = {"environment": SETTINGS | variables, "postgres_options": OPTIONS}
    stack = Stack(replace(private, durable=True, model_repository=models, **more))
    with ExitStack() as closing:
        closing.callback(stack.postgres.delete)  # its data may be elsewhere
        yield Bench(closing.enter_context(stack), options, spans_port, closing)
