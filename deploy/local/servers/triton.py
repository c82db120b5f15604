"""A private Triton from the wheel of PyTriton, which has the server and its Python backend.

Who may load a model can run code in it. So the server refuses that, and all else that nobody needs, without a key. The
key is among its arguments, because it reads it from nowhere else: other users of the machine see it in the list of
processes. So it does not run as root either.
"""

import os
import re
import secrets
import shutil
import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from deploy.local.errors import MissingPrograms
from deploy.local.processes.command import run
from deploy.local.processes.log import Listener
from deploy.local.processes.ports import HOST
from deploy.local.processes.process import Process
from deploy.local.processes.tree import send
from deploy.local.servers.account import NumberedAccount, open_to_others
from deploy.local.servers.http import answers_200
from deploy.local.servers.model_control import KEY_HEADER, ModelControl
from deploy.local.servers.models_python import find_models_python
from deploy.local.servers.repositories import find_links
from deploy.local.servers.server import Server
from deploy.local.servers.shown_folders import check_readable, explain_unreadable, find_unreadable, show_folders

EXIT_TIMEOUT = 5  # seconds for running requests when the server stops
LOADS = 16  # at a time; a load that hangs keeps its threads
CRASH = re.compile(r"Signal \((4|6|7|8|11)\) received\.")
CRASH_SECONDS = 3.0  # to write its stack
PACKAGES = "packages"  # in the environment: for each other version of Python, a folder with packages
RESTRICTED = "model-repository,shared-memory,trace,logging"  # protocols, by Triton's names
NO_FLAGS: Mapping[str, str] = {}
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where POSIX shared memory is on Linux
FLAGS = {
    # A broken model is not ready, the others serve, and the server is ready.
    "exit-on-error": "false",
    "strict-readiness": "false",
    "exit-timeout-secs": str(EXIT_TIMEOUT),
    "model-load-thread-count": str(LOADS),
    "http-thread-count": str(2 * LOADS),
    "log-info": "false",
    "log-warning": "false",
    "allow-gpu-metrics": "false",
    # Without these, the server closes connections of clients that send frequent keepalive pings.
    "grpc-http2-min-recv-ping-interval-without-data": "5000",
    "grpc-http2-max-pings-without-data": "0",
    "grpc-keepalive-permit-without-calls": "1",
}


class Triton(Server):
    """Listens on loopback, or on `address`. triton_venv.make() makes `venv`.

    It serves the models of `model_repository` and `more_models`, with the interpreter `models_python` in place of that
    of `venv`. In the mode `explicit`, wait_ready() loads them if `loads_models`. Who has the `repository_key` can load
    models.
    With `otlp_endpoint` (http://host:port) it sends spans of each request that has a traceparent.
    `flags` win over those of this module.
    """

    kind = "triton"
    ready_within = 90.0
    stop_within = EXIT_TIMEOUT + 5.0

    def __init__(
        self,
        directory: Path,
        model_repository: Path,
        grpc_port: int,
        http_port: int,
        metrics_port: int,
        venv: Path,
        *,
        more_models: Sequence[Path] = (),
        models_python: Path | None = None,
        otlp_endpoint: str | None = None,
        model_control: Literal["none", "explicit", "poll"] = "none",
        loads_models: bool = True,
        repository_key: str | None = None,
        on_line: Listener | None = None,
        name: str = "triton",
        address: str = HOST,
        flags: Mapping[str, str] = NO_FLAGS,
    ) -> None:
        self.grpc_address = f"{HOST}:{grpc_port}"
        self.metrics_url = f"http://{HOST}:{metrics_port}/metrics"
        self._http_port = http_port
        self._account = NumberedAccount.for_triton()
        # Of what shown_folders.py shows, it does not show the links above.
        locate = Path.absolute if self._account.number is None else Path.resolve
        self._venv = locate(venv)
        self._package = _find_package(self._venv)
        self._stubs = self._package / "python_backend_stubs"
        self._models_python = models_python and find_models_python(models_python, self._stubs)
        self._place = locate(directory) / "triton"
        self._home = locate(directory) / "triton-home"  # of the account
        self._models_venv = self._place / "python" if models_python else self._venv
        self._backends = self._place / "backends"
        self._repositories = [locate(each) for each in (model_repository, *more_models)]
        self._shared_memory = f"charonia_{grpc_port}_"  # unique, because two servers cannot have the same port
        ports = {"grpc": grpc_port, "http": http_port, "metrics": metrics_port}
        own = FLAGS | {
            "model-control-mode": model_control,
            "backend-directory": str(self._backends),
            "backend-config": f"python,shm-region-prefix-name={self._shared_memory}",
        }
        for service, port in ports.items():
            own |= {f"{service}-port": str(port), f"{service}-address": address}
        self.repository_key = repository_key or secrets.token_urlsafe(32)
        for protocol in ("http-restricted-api", "grpc-restricted-protocol"):
            own[protocol] = f"{RESTRICTED}:{KEY_HEADER}={self.repository_key}"
        self.models = ModelControl(http_port, self.repository_key)
        self.loads_models = model_control == "explicit" and loads_models
        self._is_managed = model_control == "explicit" and not loads_models
        repositories = [f"--model-repository={each}" for each in self._repositories]
        server = str(self._package / "bin" / "tritonserver")
        # Without the first option, the server asks each model for its configuration, which takes 0.3 s a model.
        options = ["--disable-auto-complete-config", *repositories, *_options(own | dict(flags))]
        self.argv = [server, *options, *_tracing(otlp_endpoint)]
        self.environment = self._environment()
        self.process = Process(
            name,
            self.argv,
            env=self.environment,
            cwd=directory if self._account.number is None else self._home,
            log=directory.absolute() / "log" / f"{name}.log",
            identity=self._account.options,
            on_line=self._note_line,
        )
        self._on_line = on_line

    def prepare(self) -> None:
        """Make the folder of the Python backend; raise InvalidSetting if the server cannot read what it needs."""
        self._clear_memory()
        folder = self._backends / "python"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Links, because the library finds its files relative to its real path in the wheel.
        for file in (self._package / "backends" / "python").iterdir():
            (folder / file.name).symlink_to(file)
        version = self._package.parents[2].name.removeprefix("python")
        if self._models_python:
            version = self._models_python.version
            self._models_python.make_environment(self._models_venv, self._venv / PACKAGES)
        stub = "triton_python_backend_stub"
        (folder / stub).symlink_to(self._stubs / version / stub)
        if self._account.number is not None:
            self._show()

    def _show(self) -> None:
        """Let the account read what the server needs."""
        open_to_others(self._place)
        home = self._account.make_home(self._home)
        interpreter = self._models_venv / "bin" / "python3"
        libraries = [Path(each) for each in self.environment["LD_LIBRARY_PATH"].split(":")]
        links = [link for each in self._repositories for link in find_links(each)]
        sites = map(Path, self._models_python.sites) if self._models_python else ()
        code = [self._place, self._venv, interpreter.resolve().parents[1], *libraries, *sites]
        shown = show_folders([home, *code, *self._repositories, *links], home, self._place.with_name("triton-mounts"))
        check_readable([Path(self.argv[0]), interpreter, self._backends, *self._repositories], self._account, shown)
        self.process.wrapper = shown

    def find_problems(self) -> dict[str, str]:
        """Return why models are not ready; raise NotReady if the server does not answer."""
        problems = self.models.find_problems(is_managed=self._is_managed)
        return {model: self.explain(model, reason) for model, reason in problems.items()}

    def explain(self, model: str, reason: str) -> str:
        """Return why a model is not ready. Triton says little about a file that it cannot read."""
        folders = [] if self._account.number is None else [each / model for each in self._repositories]
        unreadable = next(filter(None, map(find_unreadable, folders)), None)
        return f"{reason}; {explain_unreadable(unreadable)}" if unreadable else reason

    def greet(self) -> None:
        """Load its models, if it does not do so itself."""
        if self.loads_models:
            self.models.load_new(lambda: self.process.running)

    def stop(self) -> int | None:
        code = super().stop()
        self._clear_memory()
        return code

    def kill(self) -> None:
        super().kill()
        self._clear_memory()

    def _note_line(self, name: str, line: str) -> None:
        """End a server that has crashed. It may hang while it writes its stack: the crash holds the lock of malloc."""
        if CRASH.match(line) and (pid := self.process.pid):
            timer = threading.Timer(CRASH_SECONDS, self._end, (pid,))
            timer.daemon = True
            timer.start()
        if self._on_line is not None:
            self._on_line(name, line)

    def _end(self, pid: int) -> None:
        if self.process.pid == pid and self.process.running:
            send({pid}, signal.SIGKILL)

    def _clear_memory(self) -> None:
        """Remove what a dead server or model has left in shared memory."""
        for stale in SHARED_MEMORY.glob(f"{self._shared_memory}*"):
            with suppress(FileNotFoundError):
                stale.unlink()

    def probe(self) -> bool:
        """Return whether the server serves, even if a model could not be loaded."""
        return answers_200(self._http_port, "/v2/health/ready")

    def _environment(self) -> dict[str, str]:
        # The stub links the interpreter's library; another interpreter has other modules.
        if self._models_python:
            libraries = self._models_python.libraries
        else:
            python = self._venv / "bin" / "python"
            show = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"
            libraries = run([str(python), "-c", show], timeout=20).strip()
        more = os.environ.get("LD_LIBRARY_PATH")  # some machines have the GPU's driver only there
        return {
            "PATH": f"{self._models_venv / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": ":".join(filter(None, [libraries, more])),
            "LANG": "C.UTF-8",
            **({"HOME": os.environ.get("HOME", "/")} if self._account.number is None else self._login()),
        }

    def _login(self) -> dict[str, str]:
        """Return what programs ask for who look up their user: the account has a number only."""
        return {"HOME": str(self._home), "USER": "triton"}


def _find_package(venv: Path) -> Path:
    found = sorted(venv.glob("lib/python3.*/site-packages/pytriton/tritonserver"))
    if not found:
        raise MissingPrograms(f"no Triton in {venv}: run `python -m deploy.local prepare`")
    return found[-1]


def _options(flags: Mapping[str, str]) -> list[str]:
    return [f"--{key}={value}" for key, value in flags.items()]


def _tracing(endpoint: str | None) -> list[str]:
    if endpoint is None:
        return []
    settings = [
        "mode=opentelemetry",
        f"opentelemetry,url={endpoint.rstrip('/')}/v1/traces",
        "opentelemetry,resource=service.name=triton",
        "rate=0",  # only requests with a traceparent; sampling others corrupts the memory of this server
        "level=TIMESTAMPS",
    ]
    # Some traceparent headers are recognized only if they are also forwarded as parameters.
    return [*(f"--trace-config={setting}" for setting in settings), "--grpc-header-forward-pattern=traceparent"]
