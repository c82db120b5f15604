"""Asks whether a server is ready, over HTTP."""

from http.client import HTTPConnection, HTTPException

from deploy.local.processes.ports import HOST


def answers_200(port: int, path: str, host: str = HOST) -> bool:
    """Return whether the server answers GET with 200 within a second."""
    connection = HTTPConnection(host, port, timeout=1.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
