"""`/console`: the page for people. It holds no data: the browser reads all of it from the API, with the user's key."""

import gzip
from functools import cache
from http import HTTPStatus
from typing import Any

from litestar import MediaType, Request, Response, Router, get
from litestar.datastructures import ResponseHeader

from console.assets import Asset, hash_assets, read_assets, render_page
from services.gateway.http.negotiation import read_weights
from services.gateway.http.problems import Problem

PATH = "/console"
ASSETS = f"/assets/{hash_assets()}"
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


@get(["/", "/{page:path}"], media_type=MediaType.HTML)
async def get_page() -> Response[bytes]:
    """Return the page. Its script shows what the path names."""
    page = render_page(PATH + ASSETS)
    return Response(page, media_type=MediaType.HTML, headers={"Cache-Control": "no-cache"})


@get(f"{ASSETS}/{{name:str}}")
async def get_asset(request: Request[Any, Any, Any], name: str) -> Response[bytes]:
    asset = read_assets().get(name)
    if asset is None:
        raise Problem(HTTPStatus.NOT_FOUND, "not_found", "file not found; the page is /console")
    if read_weights(request.headers.get("accept-encoding", "")).get("gzip", 0) > 0:
        headers = FOREVER | {"Content-Encoding": "gzip"}
        return Response(compress(asset), media_type=asset.media_type, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=FOREVER)


@cache
def compress(asset: Asset) -> bytes:
    """Compress a file once, as well as gzip can."""
    return gzip.compress(asset.content, mtime=0)


router = Router(
    PATH,
    route_handlers=[get_page, get_asset],
    include_in_schema=False,
    response_headers=[ResponseHeader(name=name, value=value) for name, value in HEADERS.items()],
)
