"""A real Prometheus with the configuration that comes with the project, looking at a stack's services."""

import os
from pathlib import Path
from typing import Any

import httpx
import yaml

from deploy.local.http import answers_200
from deploy.local.ports import HOST, free_ports
from deploy.local.process import Process
from deploy.local.server import Server
from deploy.local.services import Service
from tests.monitoring import PROMETHEUS, read


class Prometheus(Server):
    """Keeps its data below `directory`; scrapes every second."""

    def __init__(self, directory: Path, services: list[Service], http: httpx.AsyncClient) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://{HOST}:{self.port}"
        self.http = http
        configuration = directory / "prometheus.yml"
        configuration.write_text(yaml.safe_dump(aim(read(PROMETHEUS / "prometheus.yml"), services)))
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

    async def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of its API; fails, with what is wrong, where it is an error."""
        answer = (await self.http.get(f"{self.url}/api/v1/{path}", params=query)).json()
        assert answer["status"] == "success", f"{query}: {answer['error']}"
        return answer["data"]


def aim(configuration: dict[str, Any], services: list[Service]) -> dict[str, Any]:
    """The configuration with a stack's services as its targets, and nobody to alert."""
    for job in configuration["scrape_configs"]:
        kind = job["job_name"].removeprefix("charonia-")
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [f"{HOST}:{each.port}" for each in services if each.kind == kind]}]
    rules = [str(PROMETHEUS / file) for file in configuration["rule_files"]]
    quick = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    return configuration | {"global": quick, "rule_files": rules, "alerting": {}}
