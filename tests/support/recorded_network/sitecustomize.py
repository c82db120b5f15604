"""Every Python process with this folder in its PYTHONPATH loads this module at its start.

The process then resolves names by the JSON file TEST_NAMES ({name: [address, …]}) and resolves other names as usual.
It appends each address that a socket connects to, one a line, to the file TEST_CONNECTS.
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

NAMES, CONNECTS = Path(os.environ["TEST_NAMES"]), Path(os.environ["TEST_CONNECTS"])
resolve = socket.getaddrinfo


def getaddrinfo(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
    addresses = json.loads(NAMES.read_text()).get(host)
    if addresses is None:
        return resolve(host, port, *rest, **options)
    return [resolve(address, port, type=socket.SOCK_STREAM)[0] for address in addresses]


def record_connection(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        with CONNECTS.open("a") as file:
            file.write(f"{arguments[1][0]}\n")


socket.getaddrinfo = getaddrinfo
sys.addaudithook(record_connection)
