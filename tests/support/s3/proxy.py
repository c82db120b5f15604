"""The proxy, as a program: `python -m tests.support.s3.proxy PORT PORT_OF_MOTO ACCESS_KEY SECRET_KEY`.

It passes bodies on as they come, and holds none. So it does not compare a body with its signed digest.
"""

import asyncio
import sys
from datetime import UTC, datetime

import aiohttp
from aiohttp import web
from botocore.credentials import Credentials
from yarl import URL

from deploy.local.processes.ports import HOST
from tests.support.s3 import HEALTH
from tests.support.s3.signatures import Refusal, check_signature

PART = 256 * 1024
OF_THE_CONNECTION = {"connection", "transfer-encoding", "keep-alive", "content-encoding"}
REFUSED = "<?xml version='1.0'?><Error><Code>{0.code}</Code><Message>{0.message}</Message></Error>"


class Proxy:
    def __init__(self, upstream: str, credentials: Credentials, session: aiohttp.ClientSession) -> None:
        self._upstream = upstream
        self._credentials = credentials
        self._session = session

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path == HEALTH:
            return web.Response()
        url = f"http://{request.host}{request.raw_path}"
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            check_signature(request.method, url, headers, self._credentials, datetime.now(UTC))
        except Refusal as refusal:
            return web.Response(status=403, text=REFUSED.format(refusal), content_type="application/xml")
        return await self._forward(request)

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        body = request.content.iter_chunked(PART) if request.body_exists else None
        target = URL(self._upstream + request.raw_path, encoded=True)
        async with self._session.request(
            request.method, target, headers=request.headers, data=body, allow_redirects=False
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in OF_THE_CONNECTION}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for part in answer.content.iter_chunked(PART):
                await response.write(part)
            await response.write_eof()
            return response


async def serve(port: int, upstream: str, credentials: Credentials) -> None:
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(auto_decompress=False, timeout=timeout) as session:
        runner = web.ServerRunner(web.Server(Proxy(upstream, credentials, session).handle))
        await runner.setup()
        await web.TCPSite(runner, HOST, port).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    own_port, moto_port, access_key, secret_key = sys.argv[1:]
    asyncio.run(serve(int(own_port), f"http://{HOST}:{moto_port}", Credentials(access_key, secret_key)))
