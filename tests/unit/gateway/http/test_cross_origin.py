"""CORS: pages of allowed origins may call the API, and no others."""

from http import HTTPStatus

import httpx
import pytest
from litestar import Litestar, Request, get
from litestar.datastructures import State
from litestar.response import Stream

from common.errors import SettingsError
from services.gateway.http.cross_origin import allow_origins
from services.gateway.http.error_responses import HANDLERS
from services.gateway.http.problems import Problem

ORIGIN, OTHER = "https://app.example.com", "https://app.example.org"
ALLOWED = "access-control-allow-origin"


@get("/job")
async def get_job() -> dict[str, str]:
    return {}


@get("/stream")
async def get_stream() -> Stream:
    return Stream(iter([b"data: {}\n\n"]), media_type="text/event-stream")


@get("/refused/{status:int}")
async def refuse(request: Request[None, None, State]) -> None:
    status = HTTPStatus(request.path_params["status"])
    raise Problem(status, "refused", "no", headers={"Retry-After": "1"})


def open_client(*origins: str) -> httpx.AsyncClient:
    app = Litestar([get_job, get_stream, refuse], cors_config=allow_origins(origins), exception_handlers=HANDLERS)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway")  # type: ignore[arg-type]


async def ask(client: httpx.AsyncClient, origin: str, method: str) -> httpx.Response:
    """Send what a browser sends before a call that has headers of its own."""
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    headers["Access-Control-Request-Headers"] = "authorization,content-type,idempotency-key,last-event-id,prefer,x-own"
    return await client.options("/job", headers=headers)


async def test_without_the_setting_no_page_is_allowed() -> None:
    assert allow_origins(()) is None
    async with open_client() as client:
        assert ALLOWED not in (await client.get("/job", headers={"Origin": ORIGIN})).headers
        assert ALLOWED not in (await ask(client, ORIGIN, "POST")).headers


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_page_may_use_every_method_and_header_but_no_cookies(method: str) -> None:
    async with open_client("http://localhost:5173", ORIGIN) as client:
        found = await ask(client, ORIGIN, method)
    assert (found.status_code, found.headers[ALLOWED]) == (204, ORIGIN)
    assert method in found.headers["access-control-allow-methods"]
    assert {"authorization", "idempotency-key", "last-event-id", "prefer", "x-own"} <= {
        name.strip().lower() for name in found.headers["access-control-allow-headers"].split(",")
    }
    assert "access-control-allow-credentials" not in found.headers
    assert found.headers["access-control-max-age"] == "7200"


@pytest.mark.parametrize("path", ["/job", "/stream", "/none", *(f"/refused/{each}" for each in (401, 413, 429, 503))])
async def test_a_page_reads_answers_streams_and_errors_with_all_headers(path: str) -> None:
    async with open_client(ORIGIN) as client:
        found = await client.get(path, headers={"Origin": ORIGIN})
    assert (found.headers[ALLOWED], found.headers["access-control-expose-headers"]) == (ORIGIN, "*")
    assert "access-control-allow-credentials" not in found.headers


@pytest.mark.parametrize("origin", [OTHER, "http://app.example.com", "https://app.example.com.evil.test", "null"])
async def test_pages_of_other_origins_may_read_nothing(origin: str) -> None:
    async with open_client(ORIGIN) as client:
        assert ALLOWED not in (await client.get("/job", headers={"Origin": origin})).headers
        assert ALLOWED not in (await ask(client, origin, "POST")).headers


@pytest.mark.parametrize(
    "origin",
    [
        "https://app.example.com",
        "http://localhost:5173",
        "https://10.1.0.7:8443",
        "http://[::1]:3000",
        "https://app.example.com:80",
        "http://app_1.example.com:65535",
        "capacitor://localhost",
        "tauri://localhost",
        "chrome-extension://kbfnbcaeplbcioakkpcpgfkobkghlhen",
    ],
)
def test_origins_as_browsers_send_them_are_accepted(origin: str) -> None:
    rules = allow_origins([origin])
    assert rules is not None
    assert rules.is_origin_allowed(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "app.example.com",
        "localhost:5173",
        "https://app.example.com/",
        "https://app.example.com/chat",
        "https://app.example.com?x=1",
        "https://me@app.example.com",
        "https://App.example.com",
        "https://größe.example",
        "https://app.example.com:443",
        "http://localhost:80",
        "http://localhost:port",
        "http://localhost:65536",
        "http://localhost:0",
        "http://localhost:",
        "http://localhost:03000",
        "localhost://3000",
        "http://10.1.0",
        "http://10.1.0.256",
        "http://[:::::]",
        "http://[0:0::1]",
        "http://[fe80::1%eth0]",
        "http://..",
        "http://app..example.com",
        "http://-",
        "ftp://app.example.com",
        "wss://app.example.com",
        "https://",
        "",
        "null",
    ],
)
def test_what_no_browser_sends_is_refused_with_the_form_of_an_origin(origin: str) -> None:
    with pytest.raises(SettingsError) as raised:
        allow_origins([ORIGIN, origin])
    assert str(raised.value).startswith(
        f"CHARONIA_CORS_ORIGINS is wrong: '{origin}' is not an origin. Expected a scheme"
    )
    assert "https://app.example.com or http://localhost:5173" in str(raised.value)


@pytest.mark.parametrize("origin", ["*", "https://*", "https://*.example.com"])
def test_a_wildcard_is_refused_with_the_reason(origin: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^CHARONIA_CORS_ORIGINS is wrong: .* Name each origin: with \* every page "
    ):
        allow_origins([origin])
