"""A real Prometheus with the project's configuration, scraping a stack's services."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from deploy.local.processes.ports import HOST, free_ports
from deploy.local.processes.process import Process
from deploy.local.servers.http import answers_200
from deploy.local.servers.server import Server
from deploy.local.services import Service
from tests.support.telemetry.monitoring_files import PROMETHEUS, read

NO_LABELS: Mapping[str, str] = {}


class Prometheus(Server):
    """Keeps its data below `directory` and scrapes every second."""

    def __init__(
        self, directory: Path, services: list[Service], http: httpx.AsyncClient, labels: Mapping[str, str] = NO_LABELS
    ) -> None:
        """Give each metric these labels too."""
        (self.port,) = free_ports(1)
        self.url = f"http://{HOST}:{self.port}"
        self._http = http
        configuration = directory / "prometheus.yml"
        configuration.write_text(yaml.safe_dump(configure(read(PROMETHEUS / "prometheus.yml"), services, labels)))
        self.process = Process(
            "prometheus",
            [
                "prometheus",
                f"--config.file={configuration}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={HOST}:{self.port}",
            ],
            env=dict(os.environ),
            cwd=directory,
            log=directory / "prometheus.log",
        )

    def probe(self) -> bool:
        return answers_200(self.port, "/-/ready")

    async def query(self, path: str, **parameters: str) -> Any:
        """Return the data of a call of its API. Fail with the message if the API answers with an error."""
        response = (await self._http.get(f"{self.url}/api/v1/{path}", params=parameters)).json()
        assert response["status"] == "success", f"{parameters}: {response['error']}"
        return response["data"]


def configure(
    configuration: dict[str, Any], services: list[Service], labels: Mapping[str, str] = NO_LABELS
) -> dict[str, Any]:
    """Return the configuration with the stack's services as targets and without Alertmanager."""
    for job in configuration["scrape_configs"]:
        kind = job["job_name"].removeprefix("charonia-")
        del job["dns_sd_configs"]
        targets = [f"{HOST}:{each.port}" for each in services if each.kind.split(".")[0] == kind]
        job["static_configs"] = [{"targets": targets, "labels": dict(labels)}]
    rules = [str(PROMETHEUS / file) for file in configuration["rule_files"]]
    quick = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    return configuration | {"global": quick, "rule_files": rules, "alerting": {}}
