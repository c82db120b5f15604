"""URLs of servers that name several hosts."""

import pytest

from common.server_urls import is_server_url, split_by_node


@pytest.mark.parametrize(
    ("url", "urls"),
    [
        ("amqp://u:p,w%2F@a:1,b/v", {"a:1": "amqp://u:p,w%2F@a:1/v", "b:5672": "amqp://u:p,w%2F@b/v"}),
        ("amqps://a,b", {"a:5671": "amqps://a", "b:5671": "amqps://b"}),
        ("amqp://a//?x=1", {"a:5672": "amqp://a//?x=1"}),
        ("amqp://[::1]:1,[::2]/", {"[::1]:1": "amqp://[::1]:1/", "[::2]:5672": "amqp://[::2]/"}),
        (
            "postgresql://u:p@a,b:2/d?sslmode=require",
            {
                "a:5432": "postgresql://u:p@a/d?sslmode=require",
                "b:2": "postgresql://u:p@b:2/d?sslmode=require",
            },
        ),
        ("postgresql:///d?host=/run/pg&port=7", {"/run/pg:7": "postgresql:///d?host=/run/pg&port=7"}),
        ("postgresql://%2Frun%2Fpg/d", {"/run/pg:5432": "postgresql://%2Frun%2Fpg/d"}),
        ("postgres:///d", {"localhost:5432": "postgres:///d"}),
        ("amqp://pg_1.db.svc.:1", {"pg_1.db.svc.:1": "amqp://pg_1.db.svc.:1"}),
    ],
)
def test_each_host_has_a_url_of_its_own(url: str, urls: dict[str, str]) -> None:
    assert is_server_url(url)
    assert split_by_node(url) == urls


@pytest.mark.parametrize(
    "url",
    [
        "amqp://a,,b/",
        "amqp://a:1, b:2/",
        "amqp://u:p@a..b/",
        "postgresql://u:p@.a/d",
        f"postgresql://u:p@{'a' * 64}.b/d",
        "amqp://u:p@a,/",
        "amqp://a:1,b:x/",
        "amqp://a:1,b:70000/",
        "amqp://u:p@a,amqp://u:p@b/",
        "postgresql://a,/d",
        "postgresql:///d?host=a,b",
    ],
)
def test_a_list_of_hosts_with_a_mistake_is_refused(url: str) -> None:
    assert not is_server_url(url)
