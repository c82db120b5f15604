"""The number of instances of each service, while the stack runs."""

from deploy.local.processes.ports import free_ports
from deploy.local.services import Service
from deploy.local.stack import Stack

MOST_INSTANCES = 8


def set_instances(stack: Stack, count: int) -> None:
    """Start or stop instances until each service has `count`.

    A further instance gets a port that is free now: one that was kept for it may be in use since.
    """
    fresh = []
    for services in (stack.dispatchers, stack.notifiers, stack.gateways):
        first = services[0]
        while len(services) > count:
            services.pop().stop()
        for number in range(len(services) + 1, count + 1):
            name, (port,) = f"{first.kind}-{number}", free_ports(1)
            service = Service(first.kind, port, stack.environment, stack.log_dir, name=name)
            services.append(service)
            fresh.append(service)
    for service in fresh:
        service.launch()
    for service in fresh:
        service.wait_ready()
