"""Connections through an egress proxy. An error of the proxy is an internal error, not the server's."""

from typing import Any, NoReturn

import aiohttp
from aiohttp import ClientConnectorError, ClientHttpProxyError, ClientProxyConnectionError, ClientRequest


class ProxyConnector(aiohttp.TCPConnector):
    """Raises ClientProxyConnectionError for every error of the proxy.

    aiohttp does so for some only. A failed look-up of the proxy's name, its certificate and its
    timeouts look like the server's.
    """

    async def _create_direct_connection(self, req: ClientRequest, *rest: Any, **options: Any) -> Any:
        """Connect to the proxy, whatever the request."""
        try:
            return await super()._create_direct_connection(req, *rest, **options)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise_proxy_error(req, error)

    async def _create_proxy_connection(self, req: ClientRequest, *rest: Any, **options: Any) -> Any:
        """Connect to the server through the proxy."""
        try:
            return await super()._create_proxy_connection(req, *rest, **options)
        except (ClientConnectorError, ClientHttpProxyError):
            raise  # an error behind the proxy, or the proxy's own response
        except aiohttp.ClientError as error:
            raise_proxy_error(req, error)


def raise_proxy_error(req: ClientRequest, error: Exception) -> NoReturn:
    raise ClientProxyConnectionError(req.connection_key, OSError(str(error))) from error
