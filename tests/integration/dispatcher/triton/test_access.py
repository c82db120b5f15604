"""A Triton that wants TLS, a client's certificate and a header."""

import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.tensors import Datatype, Tensor
from deploy.local.processes.ports import free_ports
from deploy.local.servers.triton import Triton as Server
from deploy.local.settings import Settings
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.connection import Access, Headers, TlsFiles
from services.dispatcher.triton.errors import InferenceError, TritonUnavailable
from tests.conftest import running
from tests.integration.dispatcher.inference import LIMIT, run
from tests.support.receivers.certificate_authority import Authority

pytestmark = pytest.mark.triton

DEFAULTS = Settings()
SECRET = "s3cret value"
HEADERS: Headers = (("triton-grpc-protocol-password", SECRET),)
INPUT = Tensor("x", Datatype.FP32, [1, 1], struct.pack("<f", 1))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("triton-tls")
    models = folder / "models"
    models.mkdir()
    (models / "echo").symlink_to(DEFAULTS.model_repository / "echo")
    certificate, key = authority.write_pair("server")
    flags = {
        "grpc-use-ssl": "1",
        "grpc-use-ssl-mutual": "1",
        "grpc-server-cert": str(certificate),
        "grpc-server-key": str(key),
        "grpc-root-cert": str(authority.path),
        "grpc-restricted-protocol": f"model-repository,inference:password={SECRET}",
    }
    grpc_port, http_port, metrics_port = free_ports(3)
    triton = Server(folder, models, grpc_port, http_port, metrics_port, DEFAULTS.triton_venv, flags=flags)
    with running(triton):
        yield triton


@pytest.fixture(scope="module")
def files(authority: Authority) -> TlsFiles:
    certificate, key = authority.write_pair("dispatcher")
    return TlsFiles(str(authority.path), str(certificate), str(key))


@asynccontextmanager
async def connect(server: Server, access: Access) -> AsyncIterator[TritonClient]:
    client = TritonClient(server.grpc_address, LIMIT, access)
    yield client
    await client.close()


async def test_every_call_has_tls_the_certificate_and_the_header(server: Server, files: TlsFiles) -> None:
    async with connect(server, Access(files, HEADERS)) as client:
        assert await client.list_ready() == {("echo", "1")}
        assert await client.describe("echo", "1") is not None
        assert b"2.0" in (await run(client, "echo", INPUT)).outputs


async def test_a_call_without_the_header_is_refused(server: Server, files: TlsFiles) -> None:
    async with connect(server, Access(files)) as client:
        with pytest.raises(TritonUnavailable, match="This protocol is restricted"):
            await client.list_ready()
        with pytest.raises(InferenceError):
            await run(client, "echo", INPUT)


@pytest.mark.parametrize("missing", ["tls", "certificate", "ca"])
async def test_a_connection_without_tls_or_trust_is_refused(
    server: Server, files: TlsFiles, tmp_path: Path, missing: str
) -> None:
    access = {
        "tls": Access(None, HEADERS),
        "certificate": Access(TlsFiles(files.ca), HEADERS),
        "ca": Access(TlsFiles(str(Authority(tmp_path).path), files.certificate, files.key), HEADERS),
    }[missing]
    async with connect(server, access) as client:
        with pytest.raises(TritonUnavailable):
            await client.list_ready()
