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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton-tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    """Its files are in the server's own folder, which the server's account can read."""
    place = folder / "triton"
    place.mkdir()
    return Authority(place)


@pytest.fixture(scope="module")
def server(folder: Path, authority: Authority) -> Iterator[Server]:
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


async def test_the_key_lists_and_loads_models_and_inferences_do_without_it(triton: Server) -> None:
    async with connect(triton, Access(repository_key=triton.repository_key)) as client:
        assert ("echo", "1") in await client.list_ready()
        with pytest.raises(TritonUnavailable, match="explicit model load / unload is not allowed"):  # not restricted
            await client.load("echo")
    for key in ("", "x" * 32):
        async with connect(triton, Access(repository_key=key)) as client:
            assert b"2.0" in (await run(client, "echo", INPUT)).outputs
            with pytest.raises(TritonUnavailable, match=r"restricted.*CHARONIA_TRITON_REPOSITORY_KEY is missing or wr"):
                await client.list_ready()


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
