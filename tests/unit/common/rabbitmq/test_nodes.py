"""The order in which a process tries the nodes of a cluster."""

from common.rabbitmq.nodes import Nodes

URL = "amqp://u:secret@a:1,b:2,c/v"


def keep(_names: list[str]) -> None:
    """Leave the order of the URL."""


def test_a_node_that_fails_goes_to_the_end() -> None:
    nodes = Nodes(URL, keep)
    tried = []
    for _ in range(4):
        tried.append((nodes.name, nodes.url))
        nodes.fail()
    first = ("a:1", "amqp://u:secret@a:1/v")
    assert tried == [first, ("b:2", "amqp://u:secret@b:2/v"), ("c:5672", "amqp://u:secret@c/v"), first]


def test_each_node_is_untried_until_it_fails() -> None:
    nodes = Nodes(URL, keep)
    untried = []
    for _ in range(3):
        untried.append(nodes.has_untried)
        nodes.fail()
    assert untried == [True, True, False]
    nodes.succeed()
    assert nodes.has_untried


def test_the_order_is_shuffled() -> None:
    assert {Nodes(URL).name for _ in range(200)} == {"a:1", "b:2", "c:5672"}


def test_one_node_has_no_others() -> None:
    nodes = Nodes("amqp://a/")
    nodes.fail()
    assert (nodes.name, nodes.has_others, nodes.has_untried) == ("a:5672", False, False)
