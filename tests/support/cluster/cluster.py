"""Three RabbitMQ nodes, two PostgreSQL servers under Patroni, two of each service, and a Triton for each dispatcher.

One of each service is on a machine of its own. The others, the Tritons and the callers share one that does not fail.

Call it inside the namespaces of namespaces.py.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import CommandFailed, NotReady
from deploy.local.processes.clock import Clock
from deploy.local.processes.ports import HOST
from deploy.local.servers.postgres import DATABASE, ROLES, USER
from deploy.local.servers.rabbitmq import RabbitMQ
from deploy.local.servers.server import Server
from deploy.local.servers.triton import Triton
from deploy.local.services import Service, environment_for, migrate, repository_key
from deploy.local.settings import Settings
from tests.support.cluster.etcd import Etcd
from tests.support.cluster.network import GATEWAY, Machine, create_network
from tests.support.cluster.patroni import PORT, PatroniNode
from tests.support.stacks.key_command import run_with

AMQP_PORT, DIST_PORT, EPMD_PORT = 5672, 25672, 4369
BROKER_USER = "charonia"
FORMATION_SECONDS = 60.0
POLL_SECONDS = 0.2
NET_TICK_SECONDS = 6  # after which a node that is silent counts as down; the default of 60 is longer than our faults
NUMBERS = (1, 2)  # of each service, and of its Triton
ALONE = 2  # these services are on the machine that fails
ANY = "0.0.0.0"
NETWORKS = "127.0.0.0/8,10.77.0.0/16"
SERVICES = {"gateway": 8080, "dispatcher": 8100, "notifier": 8200}


@dataclass(frozen=True)
class Group:
    """A machine of servers, and the servers on it in the order of starting."""

    machine: Machine
    servers: Sequence[Server]


class Cluster:
    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._log_dir = directory / "log"
        self._password = secrets.token_hex(12)
        brokers = [Machine(f"broker-{index}", f"10.77.1.{index}") for index in (1, 2, 3)]
        databases = [Machine(f"database-{index}", f"10.77.2.{index}") for index in (1, 2)]
        witness = Machine("witness", "10.77.3.1")
        voters = [*databases, witness]
        self.brokers = [self._make_broker(machine, brokers) for machine in brokers]
        self.databases = [PatroniNode(machine, voters, self._password, self._log_dir) for machine in databases]
        self.etcds = [Etcd(machine, voters, self._log_dir) for machine in voters]
        self.groups = [Group(machine, [broker]) for machine, broker in zip(brokers, self.brokers, strict=True)]
        self.groups += [
            Group(machine, [member, server])
            for machine, member, server in zip(databases, self.etcds, self.databases, strict=False)
        ]
        self.groups.append(Group(witness, self.etcds[2:]))
        self.tritons = [self._make_triton(directory, index) for index in (1, 2)]
        self._service_machine = Machine("services-2", "10.77.4.1")
        self.environment = environment_for(
            self.database_url(), self.amqp_url, "", f"http://{HOST}:{SERVICES['gateway']}", directory, environment
        ) | {"CHARONIA_QUEUE_TYPE": "quorum", "CHARONIA_WEBHOOK_NETWORKS": NETWORKS}
        self.clocks = {f"{kind}-{len(NUMBERS)}": Clock() for kind in SERVICES}
        self.gateways, self.dispatchers, self.notifiers = (
            [self._make_service(kind, number) for number in NUMBERS] for kind in SERVICES
        )
        alone = [each[NUMBERS.index(ALONE)] for each in (self.gateways, self.dispatchers, self.notifiers)]
        self.service_group = Group(self._service_machine, alone)

    @property
    def services(self) -> list[Service]:
        return [*self.dispatchers, *self.notifiers, *self.gateways]

    @property
    def servers(self) -> list[Server]:
        return [server for group in self.groups for server in group.servers]

    @property
    def amqp_url(self) -> str:
        hosts = ",".join(f"{group.machine.address}:{AMQP_PORT}" for group in self.groups[: len(self.brokers)])
        return f"amqp://{BROKER_USER}:{self._password}@{hosts}/"

    def database_url(self, role: str = "") -> str:
        """Return the URL of the owner of the database, or of a role."""
        user = f"{USER}_{role}" if role else USER
        hosts = ",".join(f"{each.address}:{PORT}" for each in self.databases)
        return f"postgresql://{user}:{self._password}@{hosts}/{DATABASE}"

    def start(self) -> None:
        """Start everything and wait until it is ready. Raise LocalError if that fails."""
        create_network([group.machine for group in (*self.groups, self.service_group)])
        _start([*self.brokers, *self.etcds, *self.databases, *self.tritons])
        self._wait_formed()
        self.find_primary().query(f"CREATE DATABASE {DATABASE}")
        passwords = ",".join(f"{role}={self._password}" for role in ROLES)
        migrate(self.environment | {"CHARONIA_ROLE_PASSWORDS": passwords}, self._log_dir)
        _start(self.services)

    async def make_key(self, tenant: str) -> str:
        environment = self.environment | {"CHARONIA_DATABASE_URL": self.database_url("operator")}
        made = await run_with(environment, "keys", "create", tenant, "--scope", "admin")
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def find_primary(self) -> PatroniNode:
        """Return the primary; raise NotReady if no server knows one."""
        for server in self.databases:
            for member in server.list_members():
                if member.role == "leader":
                    return next(each for each in self.databases if each.machine.name == member.name)
        raise NotReady("no server knows a primary")

    def find_standby(self) -> PatroniNode:
        primary = self.find_primary()
        return next(each for each in self.databases if each is not primary)

    def is_formed(self) -> bool:
        """Return whether PostgreSQL has a synchronous standby, and the brokers know each other."""
        return self.has_standby() and self.are_brokers_joined()

    def has_standby(self) -> bool:
        """Return whether both servers see a primary, and a synchronous standby."""
        return all(
            sorted((member.role, member.state) for member in server.list_members())
            == [("leader", "running"), ("sync_standby", "running")]
            for server in self.databases
        )

    def are_brokers_joined(self) -> bool:
        """Return whether each node of RabbitMQ sees all others. It takes seconds while the machine is busy."""
        expression = (
            "{Seen, []} = rpc:multicall(rabbit_nodes:all(), rabbit_nodes, all_running, [], 5000), "
            "lists:sum([length(Nodes) || Nodes <- Seen])."
        )
        try:
            return int(self.brokers[0].ctl("eval", expression)) == len(self.brokers) ** 2
        except (CommandFailed, ValueError):
            return False

    def _wait_formed(self) -> None:
        deadline = time.monotonic() + FORMATION_SECONDS
        while not self.is_formed():
            if time.monotonic() > deadline:
                raise NotReady(f"the cluster did not form within {FORMATION_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    def _make_broker(self, machine: Machine, machines: Sequence[Machine]) -> RabbitMQ:
        lines = [
            f"default_user = {BROKER_USER}",
            f"default_pass = {self._password}",
            "loopback_users = none",
            "cluster_formation.peer_discovery_backend = classic_config",
            "cluster_partition_handling = pause_minority",
        ]
        lines += [
            f"cluster_formation.classic_config.nodes.{index} = charonia@{each.address}"
            for index, each in enumerate(machines, 1)
        ]
        return RabbitMQ(
            machine.directory,
            AMQP_PORT,
            DIST_PORT,
            EPMD_PORT,
            name=machine.name,
            address=machine.address,
            wrapper=machine.enter,
            configuration="\n".join(lines) + "\n",
            advanced=f"[{{kernel, [{{net_ticktime, {NET_TICK_SECONDS}}}]}}].",
            log_dir=self._log_dir,
            cookie=self._password,
        )

    def _make_triton(self, directory: Path, index: int) -> Triton:
        settings, first = Settings(), 8000 + 10 * index
        return Triton(
            directory / f"triton-{index}",
            settings.model_repository,
            first,
            first + 1,
            first + 2,
            settings.triton_venv,
            model_control="explicit",
            repository_key=repository_key(directory),
            name=f"triton-{index}",
            address=ANY if index == ALONE else HOST,
        )

    def _make_service(self, kind: str, number: int) -> Service:
        name = f"{kind}-{number}"
        clock = self.clocks[name].environment if name in self.clocks else {}
        environment = self.environment | clock | {"CHARONIA_DATABASE_URL": self.database_url(kind)}
        port, triton = SERVICES[kind] + number, self.tritons[number - 1].grpc_address
        if number != ALONE:
            environment |= {"CHARONIA_TRITON_URL": triton}
            return Service(kind, port, environment, self._log_dir, name=name)
        machine = self._service_machine
        environment |= {"CHARONIA_TRITON_URL": triton.replace(HOST, GATEWAY)}
        return Service(
            kind, port, environment, self._log_dir, name=name, address=machine.address, wrapper=machine.enter
        )


def _start(members: Sequence[Server]) -> None:
    for member in members:
        member.launch()
    for member in members:
        member.wait_ready()
