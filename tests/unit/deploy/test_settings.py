from pathlib import Path

import pytest

from deploy.local.errors import InvalidSetting, PortTaken
from deploy.local.ports import require_free
from deploy.local.settings import ROOT, Settings


def test_defaults_do_not_overlap() -> None:
    ports = Settings.load({"GATEWAYS": "16", "DISPATCHERS": "16", "NOTIFIERS": "16"}).ports
    assert len(set(ports.values())) == len(ports)


def test_erlang_follows_rabbitmq() -> None:
    settings = Settings.load({"RABBITMQ_PORT": "7000"})
    assert (settings.rabbitmq_dist_port, settings.rabbitmq_epmd_port) == (7001, 7002)


def test_relative_paths_count_from_the_repository() -> None:
    assert Settings.load({"STACK_DIR": "other"}).stack_dir == ROOT / "other"


def test_only_variables_of_the_services_are_passed_on() -> None:
    environ = {"CHARONIA_LOG_LEVEL": "DEBUG", "OTEL_SERVICE_NAME": "x", "SECRET": "y"}
    assert Settings.load(environ).environment == {"CHARONIA_LOG_LEVEL": "DEBUG", "OTEL_SERVICE_NAME": "x"}


@pytest.mark.parametrize("text", ["abc", "0", "65536", "-1", "1.5", "²"])
def test_a_bad_port_is_named(text: str) -> None:
    with pytest.raises(InvalidSetting, match="GATEWAY_PORT"):
        Settings.load({"GATEWAY_PORT": text})


def test_private_stacks_share_no_port() -> None:
    first, second = (Settings.private(Path("x"), dispatchers=4).ports for _ in range(2))
    assert not set(first.values()) & set(second.values())


def test_a_port_wanted_twice_is_named() -> None:
    with pytest.raises(PortTaken, match="NOTIFIER_PORT and GATEWAY_PORT"):
        require_free({"GATEWAY_PORT": 21_990, "NOTIFIER_PORT": 21_990})
