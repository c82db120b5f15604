"""The deletion cost of a pod, at an API server over HTTPS."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.errors import SettingsError
from services.dispatcher import pod_deletion_cost
from services.dispatcher.pod_deletion_cost import ANNOTATION, Pod, PodDeletionCost
from tests.support.cluster.kubernetes_api import NAMESPACE, KubernetesApi
from tests.support.receivers.certificate_authority import Authority
from tests.support.waiting import eventually

INTERVAL = 0.1  # seconds
NAME = "pool-a-7d9f-x2x4k"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesApi]:
    server = KubernetesApi(tmp_path)
    yield server
    server.close()


class Jobs:
    """Counts running jobs, and how often it was asked."""

    def __init__(self, running: int = 0) -> None:
        self.running = running
        self.asked = 0

    def __call__(self) -> int:
        self.asked += 1
        return self.running


@asynccontextmanager
async def follow(api: KubernetesApi, jobs: Jobs) -> AsyncIterator[asyncio.Task[None]]:
    """Keep the pod's cost at the number of jobs."""
    pod = Pod.find(NAME, str(api.account), api.environment)
    task = asyncio.create_task(PodDeletionCost(pod, jobs, interval=INTERVAL).run())
    yield task
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), "the loop ended by itself"


async def wait_for_cost(api: KubernetesApi, cost: int) -> None:
    async def poll() -> bool:
        return api.annotations.get(NAME) == {ANNOTATION: str(cost)}

    await eventually(poll, f"the cost is {cost}")


async def wait_for_looks(jobs: Jobs, looks: int) -> None:
    """Return once the jobs were counted so many times more."""
    before = jobs.asked

    async def poll() -> bool:
        return jobs.asked >= before + looks

    await eventually(poll, f"the jobs are counted {looks} times")


async def test_cost_is_the_number_of_running_jobs(api: KubernetesApi) -> None:
    jobs = Jobs(running=3)
    async with follow(api, jobs):
        await wait_for_cost(api, 3)
        jobs.running = 0
        await wait_for_cost(api, 0)
    first, last = api.patches
    assert first.path == last.path == f"/api/v1/namespaces/{NAMESPACE}/pods/{NAME}"
    assert first.body == b'{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"3"}}}'


async def test_idle_pod_writes_once_because_an_earlier_process_may_have_left_a_cost(api: KubernetesApi) -> None:
    jobs = Jobs()
    async with follow(api, jobs):
        await wait_for_looks(jobs, 4)
    assert [patch.body for patch in api.patches] == [
        b'{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"0"}}}'
    ]


async def test_cost_that_changes_all_the_time_is_written_once_in_each_interval(api: KubernetesApi) -> None:
    began = time.monotonic()

    class Changing(Jobs):
        def __call__(self) -> int:
            self.running += 1
            return self.running

    async with follow(api, Changing()):
        await wait_for_cost(api, 5)
    assert time.monotonic() - began >= 4 * INTERVAL


async def test_renewed_token_is_used(api: KubernetesApi) -> None:
    jobs = Jobs(running=1)
    async with follow(api, jobs):
        await wait_for_cost(api, 1)
        api.token = "renewed"
        api.write_token("renewed")
        jobs.running = 2
        await wait_for_cost(api, 2)


async def test_refused_write_is_logged_once_and_tried_again(
    api: KubernetesApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_deletion_cost, "RETRY_SECONDS", INTERVAL)
    api.status, jobs = 403, Jobs(running=1)
    async with follow(api, jobs):
        await wait_for_looks(jobs, 3)
        api.status = 200
        await wait_for_cost(api, 1)
    assert caplog.messages == ["pod.cost_not_written"]
    assert len(api.patches) >= 3


async def test_refused_writes_are_a_minute_apart(api: KubernetesApi) -> None:
    api.status, jobs = 403, Jobs(running=1)
    async with follow(api, jobs) as task:
        await eventually(lambda: was_patched(api), "the first try")
        await asyncio.wait([task], timeout=4 * INTERVAL)
    assert len(api.patches) == 1


async def test_hanging_server_has_a_deadline(
    api: KubernetesApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_deletion_cost, "DEADLINE_SECONDS", 0.2)
    api.frozen.set()
    async with follow(api, Jobs(running=1)):
        await eventually(lambda: has_logged(caplog), "the failure is logged")
    assert caplog.messages == ["pod.cost_not_written"]


@pytest.mark.parametrize("broken", ["no token", "no files", "wrong token", "unknown authority", "no server"])
async def test_failures_are_harmless(
    broken: str, api: KubernetesApi, caplog: pytest.LogCaptureFixture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    match broken:
        case "no token":
            (api.account / "token").write_bytes(b"secret\xff\n")
        case "no files":
            (api.account / "ca.crt").unlink()
        case "wrong token":
            api.write_token("secret\nsecret")
        case "unknown authority":
            stranger = Authority(tmp_path_factory.mktemp("stranger"))
            (api.account / "ca.crt").write_bytes(stranger.path.read_bytes())
        case "no server":
            api.close()
    async with follow(api, Jobs(running=1)):
        await eventually(lambda: has_logged(caplog), "the failure is logged")
    assert api.annotations == {}
    assert not any("secret" in str(vars(record)) for record in caplog.records)


async def has_logged(caplog: pytest.LogCaptureFixture) -> bool:
    return bool(caplog.messages)


async def was_patched(api: KubernetesApi) -> bool:
    return bool(api.patches)


def test_outside_of_kubernetes_the_setting_is_wrong() -> None:
    with pytest.raises(SettingsError, match="KUBERNETES_SERVICE_HOST"):
        Pod.find(NAME, "/nowhere", {})
