"""The pods of a pool: dispatchers as processes, which start and stop as a ReplicaSet would have them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.local.services import Service
from services.dispatcher.pod_deletion_cost import ANNOTATION
from tests.support.cluster.kubernetes_api import KubernetesApi


@dataclass(frozen=True)
class Removal:
    """A pod that was chosen, its cost, and the costs of those that stayed."""

    pod: str
    cost: int
    others: Sequence[int]


class Pool:
    def __init__(self, environment: Mapping[str, str], ports: Sequence[int], logs: Path, api: KubernetesApi) -> None:
        """Each pod has one of the ports."""
        account = {"CHARONIA_SERVICE_ACCOUNT": str(api.account)} | api.environment
        self._api = api
        self._free = [
            Service(
                "dispatcher",
                port,
                {**environment, **account, "CHARONIA_POD_NAME": name, "CHARONIA_WORKER": name},
                logs,
                name=name,
            )
            for port in ports
            for name in [f"pool-{port}"]
        ]
        self.services = tuple(self._free)  # also those that do not run
        self._stops: list[asyncio.Task[int | None]] = []
        self.pods: list[Service] = []
        self.removals: list[Removal] = []
        self.sizes: list[int] = []

    async def scale(self, count: int) -> None:
        """Start or stop pods. Do not wait until they are ready or gone."""
        if count != len(self.pods):
            self.sizes.append(count)
        while len(self.pods) < count:
            pod = self._free.pop()
            await asyncio.to_thread(pod.launch)
            self.pods.append(pod)
        while len(self.pods) > count:
            ready = await asyncio.gather(*(asyncio.to_thread(pod.probe) for pod in self.pods))
            costs = [self._read_cost(pod) for pod in self.pods]
            index = min(range(len(self.pods)), key=lambda each: (ready[each], costs[each], -each))
            pod, cost = self.pods.pop(index), costs.pop(index)
            self.removals.append(Removal(pod.name, cost, costs))
            self._stops.append(asyncio.create_task(asyncio.to_thread(pod.process.stop, pod.stop_within)))

    async def wait_stopped(self) -> list[int | None]:
        """Return the exit codes of all pods that were removed."""
        return await asyncio.gather(*self._stops)

    async def close(self) -> None:
        await self.scale(0)
        await self.wait_stopped()

    def _read_cost(self, pod: Service) -> int:
        return int(self._api.annotations.get(pod.name, {}).get(ANNOTATION, "0"))
