"""The output of an installation, and what is installed for what."""

import io
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local import helm, install, language_models, npm_packages, older_openai, system, triton_venv
from deploy.local.errors import CommandFailed, MissingPrograms
from deploy.local.install import Step, find_steps, run_steps
from deploy.local.processes.command import run
from deploy.local.settings import ROOT, Settings


@pytest.fixture
def clock() -> Iterator[float]:
    """Return 0, 12, 24, …: each step takes twelve seconds."""
    return iter(range(0, 1000, 12))


def do_nothing() -> None:
    pass


def fail() -> None:
    raise CommandFailed("pip ended with code 1:\nall that pip printed")


def test_a_header_and_one_line_for_each_step_with_its_time(clock: Iterator[float]) -> None:
    out = io.StringIO()
    steps = [Step("Debian packages", 60, ": postgresql", do_nothing), Step("Triton", 61, " into x", do_nothing)]
    run_steps(steps, out, lambda: next(clock))
    assert out.getvalue().splitlines() == [
        "Installing Debian packages, Triton. This is needed once and takes about 3 minutes.",
        "  1/2 Debian packages: postgresql … 12 s",
        "  2/2 Triton into x … 12 s",
    ]


def test_nothing_to_install_prints_nothing() -> None:
    out = io.StringIO()
    run_steps([], out)
    assert out.getvalue() == ""


def test_a_failed_step_ends_its_line_and_the_installation(clock: Iterator[float]) -> None:
    out = io.StringIO()
    with pytest.raises(CommandFailed, match="all that pip printed"):
        run_steps([Step("Triton", 5, "", fail), Step("more", 5, "", do_nothing)], out, lambda: next(clock))
    assert out.getvalue().splitlines()[1:] == ["  1/2 Triton … failed after 12 s"]


def test_an_environment_behind_a_link_is_not_changed(tmp_path: Path) -> None:
    python = tmp_path / "shared" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    with pytest.raises(CommandFailed, match="is a link: remove it"):
        install.make_venv(tmp_path / "link")
    assert python.exists()


@pytest.mark.parametrize(("ending", "timeout"), [("exit 3", 60), ("exec sleep 60", 2)])
def test_an_error_has_all_that_the_program_printed(ending: str, timeout: float) -> None:
    with pytest.raises(CommandFailed, match=r"(?s)x{10000}.*and the end"):
        run(["sh", "-c", f"echo {'x' * 10_000}; echo and the end >&2; {ending}"], timeout=timeout)


def test_only_what_is_asked_for_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(helm, "DIRECTORY", tmp_path / "helm")
    monkeypatch.setattr(npm_packages, "DIRECTORY", tmp_path / "javascript")
    monkeypatch.setattr(older_openai, "DIRECTORY", tmp_path / "older")
    settings = Settings(triton_venv=tmp_path / "triton")
    assert [step.name for step in find_steps(settings, venv=ROOT / ".venv", stack=False)] == ["Python packages"]
    steps = find_steps(settings, venv=ROOT / ".venv", tests=True)
    debian, python, triton, language, program, packages, older = steps
    assert "rabbitmq-server" in debian.detail
    assert "prometheus" in debian.detail
    assert "chromium" in debian.detail
    assert "nodejs npm" in debian.detail
    assert "node-typescript" not in debian.detail
    assert python.detail == " into .venv"
    assert triton.detail == f" into {tmp_path / 'triton'}"
    assert language.detail == f" into {tmp_path / 'triton'}, 150 MB"
    assert program.detail == f" into {tmp_path / 'helm'}"
    assert packages.detail == f" into {tmp_path / 'javascript'}"
    assert older.detail == f" into {tmp_path / 'older'}"
    usual = {step.name for step in find_steps(settings, venv=ROOT / ".venv")}
    assert not {language.name, program.name, packages.name, older.name} & usual
    asked = replace(settings, language_models=1)
    assert {step.name for step in find_steps(asked, venv=ROOT / ".venv")} == {*usual, language.name}
    (checker,) = find_steps(settings, stack=False, checks=True)
    assert checker.detail == ": node-typescript"


def test_the_language_models_are_installed_once_for_each_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed: list[Path] = []
    monkeypatch.setattr(triton_venv, "install", lambda directory, requirements: installed.append(requirements))
    monkeypatch.setattr(triton_venv, "is_complete", lambda directory: True)
    assert not language_models.is_complete(tmp_path)
    language_models.make(tmp_path)
    assert installed == [language_models.REQUIREMENTS]
    assert language_models.is_complete(tmp_path)
    monkeypatch.setattr(triton_venv, "is_complete", lambda directory: False)  # Triton's own packages have changed
    assert not language_models.is_complete(tmp_path)


def test_the_command_charonia_runs_from_its_sources_whatever_the_folder_of_the_clone(tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], timeout=60)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path)}))
    (packages / "rest.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install.install_client(tmp_path)
    assert "image=@scan.png" in run([str(tmp_path / "bin" / "charonia"), "run", "--help"], timeout=60)
    (tmp_path / "charonia").mkdir()  # as a clone lies beside a program
    (tmp_path / "program.py").write_text("import charonia; print(charonia.__file__)")
    found = run([str(tmp_path / "bin" / "python"), str(tmp_path / "program.py")], timeout=60)
    assert Path(found.strip()).is_relative_to(install.CLIENT)


def test_who_may_not_install_debian_packages_is_told_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/apt-get")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingPrograms, match=r"sudo apt-get update && sudo apt-get install -y .*postgresql"):
        system.install_packages(["postgresql"])


def test_an_error_is_shown_and_the_exit_code_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install"])
    monkeypatch.setattr(install, "find_steps", lambda *_arguments, **_options: [Step("Triton", 5, "", fail)])
    assert install.main() == 1
    assert "error: pip ended with code 1:\nall that pip printed\n" in capsys.readouterr().err
