"""The dispatcher's settings."""

import os
import socket

import pytest

from common.errors import SettingsError
from common.settings import load
from services.dispatcher.settings import DispatcherSettings

REQUIRED = {
    "CHARONIA_DATABASE_URL": "postgresql://db",
    "CHARONIA_AMQP_URL": "amqp://mq",
    "CHARONIA_PORT": "8001",
    "CHARONIA_TRITON_URL": "triton:8001",
    "CHARONIA_URL_KEYS": "key",
    "CHARONIA_STORE_URL": "file:///store",
}


def test_a_worker_has_a_name_of_its_own_that_says_nothing_of_its_host() -> None:
    names = [load(DispatcherSettings, REQUIRED).worker for _ in range(2)]
    assert names[0] != names[1]
    own = names[0].removeprefix("worker-")  # a host may have this word in its name
    assert not any(word in own.split("-") for word in (*socket.gethostname().split("-"), str(os.getpid())))
    assert load(DispatcherSettings, REQUIRED | {"CHARONIA_WORKER": "a"}).worker == "a"


def test_the_space_for_fetched_inputs_fits_two_of_the_largest() -> None:
    with pytest.raises(
        SettingsError, match="MAX_FETCHED_BYTES is wrong: expected at least twice CHARONIA_MAX_TENSOR_BYTES, 4096"
    ):
        load(DispatcherSettings, REQUIRED | {"CHARONIA_MAX_FETCHED_BYTES": "4095", "CHARONIA_MAX_TENSOR_BYTES": "2048"})
    assert load(DispatcherSettings, REQUIRED).max_fetched_bytes >= 2 * 512 * 1024 * 1024


def test_the_memory_for_models_is_off_or_a_size() -> None:
    assert load(DispatcherSettings, REQUIRED).budget is None
    assert load(DispatcherSettings, REQUIRED | {"CHARONIA_MODEL_MEMORY": "40 GiB"}).budget == 40 * 2**30
    with pytest.raises(SettingsError, match="CHARONIA_MODEL_MEMORY is wrong: expected a number of bytes"):
        load(DispatcherSettings, REQUIRED | {"CHARONIA_MODEL_MEMORY": "plenty"})
