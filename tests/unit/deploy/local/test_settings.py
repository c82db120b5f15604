from collections.abc import Iterator
from errno import EACCES
from pathlib import Path

import pytest

from deploy.local.errors import InvalidSetting, NotReady, PortTaken
from deploy.local.processes import ports
from deploy.local.processes.lock import Lock
from deploy.local.processes.ports import require_free
from deploy.local.running import find_running, forget_ports, remember_ports
from deploy.local.servers.repositories import check_language_models, check_models
from deploy.local.settings import LANGUAGE_MODELS, ROOT, Settings

BLOCK = 55  # ports of a stack


def test_defaults_do_not_overlap() -> None:
    ports = Settings.load({"GATEWAYS": "16", "DISPATCHERS": "16", "NOTIFIERS": "16"}).ports
    assert len(set(ports.values())) == len(ports)


def test_erlang_follows_rabbitmq() -> None:
    settings = Settings.load({"RABBITMQ_PORT": "7000"})
    assert (settings.rabbitmq_dist_port, settings.rabbitmq_epmd_port) == (7001, 7002)


def test_relative_paths_count_from_the_repository() -> None:
    assert Settings.load({"STACK_DIR": "other"}).stack_dir == ROOT / "other"


def test_only_variables_of_the_services_are_passed_on() -> None:
    passed = {"CHARONIA_LOG_LEVEL": "DEBUG", "OTEL_SERVICE_NAME": "x", "AWS_REGION": "z"}
    assert Settings.load(passed | {"SECRET": "y"}).environment == passed


@pytest.mark.parametrize("text", ["abc", "0", "65536", "-1", "1.5", "²"])
def test_a_bad_port_is_named(text: str) -> None:
    with pytest.raises(InvalidSetting, match="GATEWAY_PORT"):
        Settings.load({"GATEWAY_PORT": text})


def test_private_stacks_share_no_port() -> None:
    first, second = (Settings.private(Path("x"), dispatchers=4).ports for _ in range(2))
    assert not set(first.values()) & set(second.values())


def test_one_base_gives_a_second_stack_its_ports_and_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    busy: set[int] = set()
    monkeypatch.setattr(ports, "is_free", lambda port: port not in busy)
    first = Settings.load({"PORT_BASE": "7000"})
    assert (first.gateway_port, first.stack_dir) == (7000, ROOT / ".charonia" / "stack-7000")
    assert set(first.ports.values()) <= set(range(7000, 7000 + BLOCK))
    busy.add(7001)
    second = Settings.load({"PORT_BASE": "7000", "NOTIFIER_PORT": "9999"})
    assert (second.gateway_port, second.notifier_port) == (7000 + BLOCK, 9999)
    assert second.stack_dir == first.stack_dir
    busy.update(range(7000, 65536))
    with pytest.raises(PortTaken, match="PORT_BASE"):
        Settings.load({"PORT_BASE": "7000"})


def test_a_port_wanted_twice_is_named() -> None:
    with pytest.raises(PortTaken, match="NOTIFIER_PORT and GATEWAY_PORT"):
        require_free({"GATEWAY_PORT": 21_990, "NOTIFIER_PORT": 21_990})


def test_a_command_finds_the_ports_of_the_stack_that_runs(tmp_path: Path) -> None:
    settings = Settings(stack_dir=tmp_path)
    with pytest.raises(NotReady, match="start it with `make up`"):
        find_running(settings)
    models = tmp_path / "models"
    there = Settings(stack_dir=tmp_path, gateway_port=7000, triton_http_port=7001, models=models, language_models=1)
    remember_ports(there)
    with pytest.raises(NotReady):  # it was killed
        find_running(settings)
    lock = Lock(tmp_path)
    lock.acquire()
    found = find_running(settings)
    assert (found.gateway_port, found.triton_http_port, found.stack_dir) == (7000, 7001, tmp_path)
    assert (found.more_models, found.model_repository) == ([LANGUAGE_MODELS, models], settings.model_repository)
    lock.release()
    with pytest.raises(NotReady):
        find_running(settings)
    lock.acquire()
    forget_ports(tmp_path)
    with pytest.raises(NotReady):
        find_running(settings)
    lock.release()


def test_models_may_stand_beside_those_of_the_demo(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    check_models(Settings().model_repository, tmp_path)
    check_models(Settings().model_repository, None)


def test_language_models_are_served_if_asked_for(tmp_path: Path) -> None:
    assert Settings.load({}).more_models == []
    assert Settings.load({"LANGUAGE_MODELS": "1"}).more_models == [LANGUAGE_MODELS]
    with pytest.raises(InvalidSetting, match="LANGUAGE_MODELS is 'chat'; it must be a whole number from 0 to 1"):
        Settings.load({"LANGUAGE_MODELS": "chat"})
    check_language_models(LANGUAGE_MODELS, [Settings().model_repository, None])
    (tmp_path / "chat").mkdir()
    with pytest.raises(InvalidSetting, match=f"{tmp_path} has a model 'chat', too: rename it"):
        check_language_models(LANGUAGE_MODELS, [Settings().model_repository, tmp_path])
    with pytest.raises(InvalidSetting, match="only a clone has these models"):
        check_language_models(tmp_path / "missing", [])


@pytest.mark.parametrize("repositories", [("models", None), ("other", "models")])
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, repositories: tuple[str, str | None]) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / ".#model.py").symlink_to("someone@host")
    demo, own = repositories
    with pytest.raises(InvalidSetting, match=r"models/\.#model\.py is a link that leads nowhere.*remove it"):
        check_models(tmp_path / demo, None if own is None else tmp_path / own)


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> Iterator[Path]:
        raise PermissionError(EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(InvalidSetting, match=f"{tmp_path} cannot be read: change its permissions"):
        check_models(tmp_path, None)


@pytest.mark.parametrize(
    ("path", "text"), [("missing", "no such folder"), ("own", "which is a model"), (".", "both have a model 'echo'")]
)
def test_a_wrong_folder_of_models_is_explained(tmp_path: Path, path: str, text: str) -> None:
    for name in ("echo", "own"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.pbtxt").touch()
    with pytest.raises(InvalidSetting, match=text):
        check_models(Settings().model_repository, tmp_path / path)
