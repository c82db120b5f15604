"""`/docs`: Swagger UI, from an installed package. The browser loads nothing from other hosts."""

from functools import cache
from http import HTTPStatus
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from litestar import Request, Response, Router, get
from litestar.datastructures import ResponseHeader
from litestar.openapi.plugins import OpenAPIRenderPlugin

from services.gateway.http.problems import Problem

PATH = "/docs"
PACKAGE = Distribution.from_name("swagger-ui-py")  # only its files are used; its code is not imported
ASSETS = f"/static/{PACKAGE.version}"  # the version is part of the path, because browsers cache the files
FILES = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
START = "start.js"  # a file of its own: the policy forbids scripts in the page
SCRIPT = b"""SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null,
});
"""
PAGE = f"""<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Charonia</title>
  <link rel="icon" type="image/png" href="{PATH}{ASSETS}/favicon-32x32.png">
  <link rel="stylesheet" href="{PATH}{ASSETS}/swagger-ui.css">
</head>
<body>
  <div id="docs"></div>
  <script src="{PATH}{ASSETS}/swagger-ui-bundle.js"></script>
  <script src="{PATH}{ASSETS}/{START}"></script>
</body>
</html>
"""
# Swagger UI sets inline styles, and its style sheet contains images; everything else comes from this host.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@get(f"{ASSETS}/{{name:str}}")
async def get_asset(name: str) -> Response[bytes]:
    if name == START:
        return Response(SCRIPT, media_type="text/javascript", headers=FOREVER)
    if name not in FILES:
        raise Problem(HTTPStatus.NOT_FOUND, "not_found", "file not found; the page is /docs")
    return Response(read_asset(name), media_type=FILES[name], headers=FOREVER)


@cache
def read_asset(name: str) -> bytes:
    return Path(str(PACKAGE.locate_file(f"swagger_ui/static/{name}"))).read_bytes()


class DocsPlugin(OpenAPIRenderPlugin):
    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, _request: Request[Any, Any, Any], _schema: dict[str, Any]) -> bytes:
        return PAGE.encode()


def make_docs_router() -> Router:
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
    return Router(
        PATH,
        route_handlers=[get_asset],
        include_in_schema=False,
        response_headers=[ResponseHeader(name=name, value=value) for name, value in headers.items()],
    )
