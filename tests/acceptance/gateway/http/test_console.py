"""What a browser gets below `/console`."""

import gzip
import re
from urllib.parse import urljoin

import pytest

from console.assets import hash_assets, read_assets
from deploy.local.stack import Stack
from tests.support.api.api_client import Api

ADDRESS = re.compile(r'(?:src|href)="([^"]+)"')
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "media-src blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
}
ASSETS = f"/console/assets/{hash_assets()}"


@pytest.mark.parametrize(
    "path", ["/console", "/console/", "/console/jobs/job_x", "/console/models/a%2Fb", "/console/no/such/page"]
)
async def test_any_path_gives_the_page(api: Api, path: str) -> None:
    found = await api.http.get(path, headers={"authorization": ""})
    assert (found.status_code, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert found.headers["cache-control"] == "no-cache"
    assert "{assets}" not in found.text


@pytest.mark.parametrize("path", ["/console", "/console/jobs", f"{ASSETS}/console.js"])
async def test_policy_is_strict(api: Api, path: str) -> None:
    headers = (await api.http.get(path)).headers
    assert set(headers["content-security-policy"].split("; ")) == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


async def test_everything_that_the_page_names_is_served(api: Api) -> None:
    page = await api.http.get("/console")
    named = {urljoin(str(page.url), address) for address in ADDRESS.findall(page.text)}
    assert {address.rpartition("/")[2] for address in named} == read_assets().keys()
    for address in named:
        found = await api.http.get(address, headers={"authorization": ""})
        assert found.status_code == 200
        assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert found.content == read_assets()[address.rpartition("/")[2]].content


async def test_page_has_nothing_inline(api: Api) -> None:
    text = (await api.http.get("/console")).text
    assert re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text) is None


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, br", "gzip"), ("identity", None), ("gzip;q=0", None)])
async def test_files_are_compressed_for_browsers_that_accept_it(
    stack: Stack, api: Api, accepted: str, encoding: str | None
) -> None:
    request = api.http.build_request("GET", f"{ASSETS}/console.js", headers={"accept-encoding": accepted})
    found = await api.http.send(request, stream=True)
    raw = b"".join([part async for part in found.aiter_raw()])
    assert found.headers.get("content-encoding") == encoding
    assert found.headers["vary"] == "Accept-Encoding"
    content = read_assets()["console.js"].content
    assert (gzip.decompress(raw) if encoding else raw) == content
    assert int(found.headers["content-length"]) == len(raw)


@pytest.mark.parametrize("path", [f"{ASSETS}/none.js", f"{ASSETS}/..%2Fassets.py", f"{ASSETS}/"])
async def test_unknown_file_is_404_and_not_the_page(api: Api, path: str) -> None:
    found = await api.http.get(path)
    assert found.status_code == 404
    assert found.headers["content-type"] == "application/problem+json"


async def test_files_of_another_version_are_404(api: Api) -> None:
    found = await api.http.get("/console/assets/0123456789abcdef/console.js")
    assert found.status_code == 404


async def test_only_get_is_allowed(api: Api) -> None:
    assert (await api.http.post("/console", json={})).status_code == 405
