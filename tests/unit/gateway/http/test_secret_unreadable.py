"""A secret that no encryption key decrypts is an error that names the setting."""

import httpx
import pytest
from cryptography.fernet import Fernet
from litestar import Litestar, get

from common.security.encryption import Encryptor
from services.gateway.http.error_responses import HANDLERS

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@get("/secret")
async def get_secret() -> str:
    return Encryptor([NEW]).decrypt(Encryptor([OLD]).encrypt(b"secret")).decode()


async def test_the_problem_and_the_log_name_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    app = Litestar([get_secret], exception_handlers=HANDLERS, logging_config=None)
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        found = await client.get("/secret")
    assert found.status_code == 500
    assert found.json()["type"] == "urn:charonia:problem:secret_unreadable"
    assert "no key of CHARONIA_ENCRYPTION_KEYS decrypts" in found.json()["detail"]
    (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert line.getMessage() == "request.secret_unreadable"
    assert line.exc_info is None  # it is no bug
