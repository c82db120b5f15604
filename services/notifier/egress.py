"""Connections through an egress proxy: what goes wrong before it has spoken is its fault, and so ours."""

from typing import Any, NoReturn

import aiohttp
from aiohttp import ClientConnectorError, ClientHttpProxyError, ClientProxyConnectionError, ClientRequest


class ProxyConnector(aiohttp.TCPConnector):
    """aiohttp has names of its own for some of it only: the proxy's name, its certificate and its silence look like
    the receiver's."""

    async def _create_direct_connection(self, req: ClientRequest, *rest: Any, **options: Any) -> Any:
        """To the proxy, whatever the request."""
        try:
            return await super()._create_direct_connection(req, *rest, **options)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            blame(req, error)

    async def _create_proxy_connection(self, req: ClientRequest, *rest: Any, **options: Any) -> Any:
        """Through the proxy."""
        try:
            return await super()._create_proxy_connection(req, *rest, **options)
        except (ClientConnectorError, ClientHttpProxyError):
            raise  # from behind the proxy, or what the proxy said
        except aiohttp.ClientError as error:
            blame(req, error)


def blame(req: ClientRequest, error: Exception) -> NoReturn:
    raise ClientProxyConnectionError(req.connection_key, OSError(str(error))) from error
