"""Starts a pod of each kind from what the chart renders, and runs a job through them.

It does what a kubelet does: containers in their order, with their image, arguments, variables, user, read-only root and
temporary folders; then their probes. The pods use the servers of the compose stack.
"""

import base64
import secrets
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from common.postgres.roles import ROLES
from deploy.compose.rehearsal.containers import Object, Secrets, find_port, list_containers, run_options
from deploy.compose.rehearsal.engine import Engine
from deploy.compose.rehearsal.stack import smoke_from_host
from deploy.local import helm
from deploy.local.errors import LocalError, NotReady
from deploy.local.processes.command import run
from deploy.local.settings import ROOT
from deploy.local.terminal import say

CHART = ROOT / "deploy" / "kubernetes" / "charonia"
VALUES = Path(__file__).with_name("pods.yaml")
NAME = "pods"  # of the database and of the virtual host
PASSWORD = "development"  # noqa: S105 - of all servers in compose.yaml
NETWORK = "charonia_default"
STORE = "http://localhost:8333"  # of pods.yaml
RECEIVER = ROOT / "deploy" / "compose" / "receiver.py"
GATEWAY = "charonia-gateway"
OPERATOR = "charonia-operator"
WITHIN = 120.0  # seconds until a probe or the smoke test has failed
STOP_SECONDS = 400.0


def make_secrets() -> Secrets:
    """Return the keys and values of the Secrets that the chart names."""
    urls = {role: f"postgresql://charonia_{role}:{PASSWORD}@postgres:5432/{NAME}" for role in ROLES}
    database = urls | {
        "owner": f"postgresql://charonia:{PASSWORD}@postgres:5432/{NAME}",
        "role-passwords": ",".join(f"{role}={PASSWORD}" for role in ROLES),
    }
    return {
        **{("charonia-database", key): value for key, value in database.items()},
        ("charonia-amqp", "url"): f"amqp://charonia:{PASSWORD}@rabbitmq:5672/{NAME}",
        ("charonia-keys", "encryption-keys"): base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        ("charonia-keys", "url-keys"): secrets.token_urlsafe(48),
        ("charonia-keys", "triton-repository-key"): secrets.token_hex(32),
        ("store", "id"): "charonia",
        ("store", "secret"): PASSWORD,
    }


def render() -> list[Object]:
    """Return the objects of the chart; get Helm if it is missing."""
    if not helm.is_complete(helm.DIRECTORY):
        helm.make(helm.DIRECTORY)
    models = f"pools[0].triton.modelVolume.hostPath.path={ROOT / 'deploy' / 'models'}"
    argv = [str(helm.DIRECTORY / "helm"), "template", "charonia", str(CHART), "-f", str(VALUES), "--set", models]
    text = run(argv, timeout=60)
    return [each for each in yaml.safe_load_all(text) if each]


@dataclass
class Pods:
    """The pods that run. The first container of a pod has its network."""

    engine: Engine
    secrets: Secrets
    started: list[str] = field(default_factory=list)

    def run_job(self, job: Object) -> None:
        """Run the Job's only container to its end; raise CommandFailed."""
        spec = job["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        options, command = run_options(container, spec, self.secrets)
        self.engine.docker("run", "--rm", f"--network={NETWORK}", *options, *command, timeout=WITHIN)
        say(f"ok: {job['metadata']['name']} ended with code 0")

    def start(self, deployment: Object) -> None:
        """Start one pod. Each container starts when the one before passes its startup probe."""
        name, spec = deployment["metadata"]["name"], deployment["spec"]["template"]["spec"]
        network = [f"--network={NETWORK}", f"--network-alias={name}"]
        for container in list_containers(spec):
            options, command = run_options(container, spec, self.secrets)
            full = f"{name}-{container['name']}"
            self.engine.docker("run", "--detach", f"--name={full}", "--no-healthcheck", *network, *options, *command)
            self.started.append(full)
            network = [f"--network=container:{self.first(name)}"]
            self.probe(name, container, "startupProbe")
        for container in list_containers(spec):
            self.probe(name, container, "readinessProbe")

    def first(self, deployment: str) -> str:
        return next(each for each in self.started if each.startswith(f"{deployment}-"))

    def address(self, deployment: str) -> str:
        form = f'{{{{(index .NetworkSettings.Networks "{NETWORK}").IPAddress}}}}'
        return self.engine.docker("inspect", "-f", form, self.first(deployment))

    def probe(self, deployment: str, container: Object, kind: str) -> None:
        """Wait until a probe passes, if the container has it; raise NotReady."""
        if (probe := container.get(kind)) is None:
            return
        port = find_port(container, probe)
        url = f"http://{self.address(deployment)}:{port}{probe['httpGet']['path']}"
        deadline = time.monotonic() + WITHIN
        while True:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    shown = answer.read().decode()
                    break
            except OSError as error:
                if time.monotonic() > deadline:
                    logs = self.engine.docker("logs", "--tail=20", f"{deployment}-{container['name']}")
                    raise NotReady(f"{url} is not ready: {error}\n{logs}") from error
                time.sleep(0.5)
        say(f"ok: {deployment}: {container['name']} {probe['httpGet']['path']} {shown}".strip())

    def stop(self) -> None:
        """End all containers, the last one first: a dispatcher before its Triton. Each must end by itself, with 0."""
        while self.started:
            name = self.started.pop()
            self.engine.docker("stop", name, timeout=STOP_SECONDS)
            code = self.engine.docker("inspect", "-f", "{{.State.ExitCode}}", name)
            self.engine.docker("rm", name)
            if code != "0" and not name.startswith(OPERATOR):
                raise LocalError(f"{name} ended with code {code}")
        say("ok: every container drained and ended with code 0")

    def remove(self) -> None:
        while self.started:
            self.engine.docker("rm", "--force", self.started.pop())


def prepare(engine: Engine) -> None:
    """Make a database and a virtual host."""
    psql = [
        "exec",
        "--env",
        f"PGPASSWORD={PASSWORD}",
        "charonia-postgres-1",
        "psql",
        "-h",
        "127.0.0.1",
        "-U",
        "charonia",
    ]
    engine.docker(*psql, "-c", f"CREATE DATABASE {NAME}")
    rabbitmqctl = ["exec", "charonia-rabbitmq-1", "/usr/lib/rabbitmq/bin/rabbitmqctl"]
    engine.docker(*rabbitmqctl, "add_vhost", NAME)
    engine.docker(*rabbitmqctl, "set_permissions", "-p", NAME, "charonia", ".*", ".*", ".*")


@contextmanager
def receiver(engine: Engine, image: str, key: str) -> Iterator[str]:
    """Run a receiver that verifies webhooks with a tenant's secret; yield its URL."""
    name = "charonia-pods-receiver"
    variables = ["--env", f"CHARONIA_URL=http://{GATEWAY}:8080", "--env", f"CHARONIA_KEY={key}"]
    volume = ["--volume", f"{RECEIVER}:/receiver.py:ro"]
    engine.docker(
        "run",
        "--detach",
        f"--name={name}",
        f"--network={NETWORK}",
        *variables,
        *volume,
        image,
        "python3",
        "-u",
        "/receiver.py",
    )
    try:
        yield f"http://{name}:8000/"
    finally:
        engine.docker("rm", "--force", name)


def rehearse_pods(engine: Engine, python: str, store: str) -> None:
    """Migrate with the Job, start a pod of each Deployment, run a job through them, and stop them.

    `store` is the address of the S3 server on the host.
    """
    objects = render()
    prepare(engine)
    pods = Pods(engine, make_secrets())
    with ExitStack() as stopping:
        stopping.callback(pods.remove)
        for job in (each for each in objects if each["kind"] == "Job"):
            pods.run_job(job)
        for deployment in (each for each in objects if each["kind"] == "Deployment"):
            pods.start(deployment)
        create = ["python", "-m", "services.gateway.commands.keys", "create", "rehearsal", "--scope", "admin"]
        key = engine.docker("exec", pods.first(OPERATOR), *create).split()[-1]
        url = stopping.enter_context(receiver(engine, python, key))
        gateway = f"http://{pods.address(GATEWAY)}:8080"
        say(smoke_from_host(gateway, key, url, {"STORE_PUBLIC_ENDPOINT": STORE, "STORE_ENDPOINT": store}))
        pods.stop()
