"""An installation from a bundle has its own paths and commands."""

import os
import subprocess
from pathlib import Path

import pytest

from deploy.local import example, install, installation
from deploy.local.installation import ROOT, command_for, find_installation
from deploy.local.settings import Settings


def test_the_repository_is_no_installation() -> None:
    assert find_installation(ROOT) is None
    assert str(installation.USR) == "/usr"


def test_an_installation_is_known_by_its_description(tmp_path: Path) -> None:
    root = tmp_path / "app"
    root.mkdir()
    assert find_installation(root) is None
    (tmp_path / "bundle.json").touch()
    assert find_installation(root) == tmp_path


def test_commands_are_those_of_make_or_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_for("key", TENANT="acme") == "make key TENANT=acme"
    monkeypatch.setattr(installation, "INSTALLATION", Path("/opt/charonia"))
    assert command_for("key", TENANT="acme") == "/opt/charonia/key acme"
    assert Settings(port_base=7000).make_call("up") == "PORT_BASE=7000 /opt/charonia/up"


def test_the_example_uses_the_installed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "INSTALLATION", Path("/opt/charonia"))
    assert "/opt/charonia/charonia run ocr image=@/" in example.make_example("http://localhost:8080", "k")


def test_nothing_is_installed_into_an_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "INSTALLATION", tmp_path)
    assert install.find_steps(Settings(triton_venv=tmp_path / "missing")) == []


def test_commands_ignore_settings_of_other_pythons(tmp_path: Path) -> None:
    script = f'here={tmp_path}; . "$0"; echo "${{PYTHONHOME-unset}} ${{PYTHONPATH-unset}}"'
    environment = {"PATH": os.defpath, "PYTHONHOME": "/other", "PYTHONPATH": "/other"}
    file = ROOT / "deploy/bundle/commands/environment.sh"
    done = subprocess.run(["sh", "-c", script, str(file)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "unset unset\n"
