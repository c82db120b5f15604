"""Whoever reaches Triton's ports can run no code, and Triton's processes are not root's."""

import base64
import json
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from deploy.local.processes.ports import HOST
from deploy.local.processes.tree import members
from deploy.local.stack import Stack

CONFIGURATION = '{"backend": "python", "input": [], "output": []}'
# Runs when Triton loads it.
PROGRAM = "open({!r}, 'w').close()\nclass TritonPythonModel:\n    pass\n"
AS_A_PAGE = {"Content-Type": "text/plain", "Origin": "https://example.com"}  # which needs no preflight
OPEN = ["/v2/health/live", "/v2/health/ready", "/v2/models/echo", "/v2/models/echo/config", "/v2/models/stats"]
RESTRICTED = [
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/echo/unload"),
    ("POST", "/v2/systemsharedmemory/region/all/register"),
    ("GET", "/v2/systemsharedmemory/status"),
    ("POST", "/v2/cudasharedmemory/region/all/register"),
    ("POST", "/v2/trace/setting"),
    ("POST", "/v2/models/echo/trace/setting"),
    ("POST", "/v2/logging"),
]
GRPC_RESTRICTED: dict[str, Any] = {
    "RepositoryIndex": pb.RepositoryIndexRequest(),
    "RepositoryModelUnload": pb.RepositoryModelUnloadRequest(model_name="echo"),
    "SystemSharedMemoryRegister": pb.SystemSharedMemoryRegisterRequest(name="a", key="/a", byte_size=1),
    "TraceSetting": pb.TraceSettingRequest(),
    "LogSettings": pb.LogSettingsRequest(),
}


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{stack.settings.triton_http_port}", timeout=30) as client:
        yield client


@pytest.fixture
async def stub(stack: Stack) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(stack.triton.grpc_address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.mark.parametrize("headers", [{}, AS_A_PAGE, {"charonia-repository-key": "wrong"}])
async def test_a_model_with_files_is_refused_over_http(
    http: httpx.AsyncClient, tmp_path: Path, headers: Mapping[str, str]
) -> None:
    mark = tmp_path / "it-ran"
    file = base64.b64encode(PROGRAM.format(str(mark)).encode()).decode()
    body = json.dumps({"parameters": {"config": CONFIGURATION, "file:1/model.py": file}})
    answer = await http.post("/v2/repository/models/strange/load", content=body, headers=headers)
    assert (answer.status_code, mark.exists()) == (403, False), answer.text


async def test_a_model_with_files_is_refused_over_grpc(stub: Any, tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    request = pb.RepositoryModelLoadRequest(model_name="strange")
    request.parameters["config"].string_param = CONFIGURATION
    request.parameters["file:1/model.py"].bytes_param = PROGRAM.format(str(mark)).encode()
    with pytest.raises(grpc.aio.AioRpcError, match="This protocol is restricted"):
        await stub.RepositoryModelLoad(request, timeout=30)
    assert not mark.exists()


@pytest.mark.parametrize(("method", "path"), RESTRICTED)
async def test_all_that_no_service_needs_without_a_key_is_refused(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await http.request(method, path, content="{}" if method == "POST" else None)
    assert answer.status_code == 403, answer.text


@pytest.mark.parametrize("method", GRPC_RESTRICTED)
async def test_the_same_is_refused_over_grpc(stub: Any, method: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="This protocol is restricted"):
        await getattr(stub, method)(GRPC_RESTRICTED[method], timeout=30)


async def test_health_metadata_and_inferences_need_no_key(http: httpx.AsyncClient, stack: Stack) -> None:
    for path in OPEN:
        (await http.get(path)).raise_for_status()
    inputs = [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]
    (await http.post("/v2/models/echo/infer", json={"inputs": inputs})).raise_for_status()
    (await http.get(stack.triton.metrics_url)).raise_for_status()


def test_no_process_of_triton_is_roots(stack: Stack) -> None:
    pid = stack.triton.process.pid
    assert pid is not None
    family = members(pid)
    assert len(family) > 1  # the models have processes of their own
    for each in family:
        status = Path(f"/proc/{each}/status").read_text().splitlines()
        fields = {name: value.split() for name, _, value in (line.partition(":") for line in status)}
        assert "0" not in (*fields["Uid"], *fields["Gid"], *fields["Groups"]), fields["Name"]
        assert int(fields["CapEff"][0], 16) == 0


def test_the_key_is_in_a_file_of_its_owner_and_in_no_log(stack: Stack) -> None:
    key = stack.environment["CHARONIA_TRITON_REPOSITORY_KEY"]
    file = stack.settings.stack_dir / "triton.key"
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (key, 0o600)
    logs = [each for each in stack.log_dir.iterdir() if each.is_file()]
    assert {"dispatcher.log", "triton.log"} <= {each.name for each in logs}
    assert [each.name for each in logs if key in each.read_text(errors="replace")] == []
