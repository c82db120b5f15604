"""The dispatcher's settings."""

import os
import socket

from common.settings import load
from services.dispatcher.settings import DispatcherSettings

REQUIRED = {
    "CHARONIA_DATABASE_URL": "postgresql://db",
    "CHARONIA_AMQP_URL": "amqp://mq",
    "CHARONIA_PORT": "8001",
    "CHARONIA_TRITON_URL": "triton:8001",
    "CHARONIA_URL_KEYS": "key",
}


def test_a_worker_has_a_name_of_its_own_that_says_nothing_of_its_host() -> None:
    names = [load(DispatcherSettings, REQUIRED).worker for _ in range(2)]
    assert names[0] != names[1]
    assert not any(word in names[0].split("-") for word in (*socket.gethostname().split("-"), str(os.getpid())))
    assert load(DispatcherSettings, REQUIRED | {"CHARONIA_WORKER": "a"}).worker == "a"
