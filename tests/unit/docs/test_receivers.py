"""The receivers in the guide accept a genuine webhook, and refuse any other."""

import asyncio
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import django
import httpx
import pytest
from django.conf import settings
from django.core.wsgi import get_wsgi_application

from common.security import webhook_signatures

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "receive-webhooks.md"
SECRET = webhook_signatures.new_secret("hmac")
BODY = b'{"type": "webhook.test", "timestamp": "2026-11-21T02:53:41.250Z", "data": {"id": "whk_1"}}'
LINES = 10  # of a receiver, without its imports


def find_example(framework: str) -> str:
    found = re.search(rf"^{framework}:\n\n```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, framework
    return found[1]


@pytest.fixture
def receiver(framework: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that a reader makes of the example."""
    monkeypatch.setenv("CHARONIA_WEBHOOK_SECRET", SECRET)
    module = ModuleType("receiver")
    monkeypatch.setitem(sys.modules, "receiver", module)
    if framework == "Django" and not settings.configured:
        settings.configure(ROOT_URLCONF="receiver", ALLOWED_HOSTS=["*"], SECRET_KEY="any")
        django.setup(set_prefix=False)
    exec(find_example(framework), module.__dict__)  # noqa: S102 -- readers run it too
    return module


async def post(framework: str, receiver: Any, headers: dict[str, str], body: bytes) -> int:
    if framework in ("Litestar", "FastAPI"):
        transport = httpx.ASGITransport(receiver.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
            return (await client.post("/hook", headers=headers, content=body)).status_code
    app = receiver.app if framework == "Flask" else get_wsgi_application()
    return await asyncio.to_thread(post_wsgi, app, headers, body)


def post_wsgi(app: Any, headers: dict[str, str], body: bytes) -> int:
    with httpx.Client(transport=httpx.WSGITransport(app), base_url="http://receiver") as client:
        return client.post("/hook", headers=headers, content=body).status_code


@pytest.mark.parametrize("framework", ["Litestar", "FastAPI", "Flask", "Django"])
async def test_a_receiver_accepts_only_what_is_genuine(
    framework: str, receiver: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    at = int(time.time())
    headers = {
        "content-type": "application/json",
        "webhook-id": "dlv_1",
        "webhook-timestamp": str(at),
        "webhook-signature": webhook_signatures.sign([SECRET], "dlv_1", at, BODY),
    }
    assert await post(framework, receiver, headers, BODY) == 204
    assert "dlv_1 webhook.test" in capsys.readouterr().out
    assert await post(framework, receiver, headers, BODY + b" ") == 401
    assert await post(framework, receiver, {"content-type": "application/json"}, BODY) == 401
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("framework", ["Litestar", "FastAPI", "Flask", "Django"])
def test_a_receiver_is_short(framework: str) -> None:
    lines = [line for line in find_example(framework).splitlines() if line and "import " not in line]
    assert len(lines) <= LINES
