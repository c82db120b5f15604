"""/docs needs nothing from elsewhere: the gateway has all that the page names."""

import re
from html.parser import HTMLParser

import httpx

from deploy.local.stack import Stack

TYPES = {"css": "text/css", "js": "text/javascript", "png": "image/png"}
POLICY = {"default-src": "'none'", "script-src": "'self'", "connect-src": "'self'"}
WHERE = re.compile(rb"""\burl\((?!\s*["']?data:)""")  # in a style sheet


class Page(HTMLParser):
    """What a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("href", "src")]


async def test_everything_that_the_page_loads_is_the_gateways_own(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as browser:
        page = await browser.get("/docs")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
        assert policy | POLICY == policy
        loads = Page(page.text).loads
        assert len(loads) == 4
        for path in loads:
            assert re.match("/[^/]", path), f"{path} is elsewhere"
            asset = await browser.get(path)
            assert asset.status_code == 200, path
            assert asset.headers["content-type"].split(";")[0] == TYPES[path.rpartition(".")[2]]
            assert "immutable" in asset.headers["cache-control"]
            assert len(asset.content) > 100
            if path.endswith(".css"):
                assert not WHERE.search(asset.content)
        script = (await browser.get(loads[-1])).text
        (document,) = re.findall(r'url: "(.*)"', script)
        assert (await browser.get(document)).json()["openapi"].startswith("3.1")
        assert "validatorUrl: null" in script  # a picture from elsewhere that tells whether the document is right
        missing = await browser.get(loads[0].rpartition("/")[0] + "/nothing.js")
        assert missing.status_code == 404
