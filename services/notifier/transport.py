"""httpx over aiohttp, without what httpx-aiohttp does beside: it decodes all headers several times and makes the
timeouts anew for every request, which is more work than the sending."""

import aiohttp
import httpx
import yarl
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream, map_aiohttp_exceptions
from multidict import CIMultiDict


class DirectTransport(AiohttpTransport):
    """To receivers themselves, no proxy between."""

    def __init__(self, session: aiohttp.ClientSession, connect: float) -> None:
        """`connect` is for connections, in seconds; the rest is the caller's to end."""
        super().__init__(client=session)
        self.session = session
        self.timeout = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Of a request whose body is read."""
        headers = CIMultiDict([(name.decode("ascii"), value.decode("ascii")) for name, value in request.headers.raw])
        with map_aiohttp_exceptions():
            answer = await self.session.request(
                request.method,
                yarl.URL(str(request.url)),
                data=request.content,
                headers=headers,
                allow_redirects=False,
                compress=False,
                timeout=self.timeout,
            )
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=AiohttpResponseStream(answer))
