"""/docs loads nothing from other servers."""

import re
from html.parser import HTMLParser

import httpx

from deploy.local.stack import Stack

TYPES = {"css": "text/css", "js": "text/javascript", "png": "image/png"}
POLICY = {"default-src": "'none'", "script-src": "'self'", "connect-src": "'self'"}
EXTERNAL_URL = re.compile(rb"""\burl\((?!\s*["']?data:)""")  # in a style sheet


class PageLinks(HTMLParser):
    """The links and sources in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


async def test_page_loads_everything_from_the_gateway(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as browser:
        page = await browser.get("/docs")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
        assert policy | POLICY == policy
        links = PageLinks(page.text).links
        assert len(links) == 4
        for path in links:
            assert re.match("/[^/]", path), f"{path} is elsewhere"
            asset = await browser.get(path)
            assert asset.status_code == 200, path
            assert asset.headers["content-type"].split(";")[0] == TYPES[path.rpartition(".")[2]]
            assert "immutable" in asset.headers["cache-control"]
            assert len(asset.content) > 100
            if path.endswith(".css"):
                assert not EXTERNAL_URL.search(asset.content)
        script = (await browser.get(links[-1])).text
        (document,) = re.findall(r'url: "(.*)"', script)
        assert (await browser.get(document)).json()["openapi"].startswith("3.1")
        assert "validatorUrl: null" in script  # it would load an image from another server
        missing = await browser.get(links[0].rpartition("/")[0] + "/nothing.js")
        assert missing.status_code == 404
