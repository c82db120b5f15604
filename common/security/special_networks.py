"""The networks and ports that a URL of a client may not name."""

from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network

# All entries of the registries of special addresses (RFC 6890 and later ones). `ipaddress.is_global` will not do: it
# calls 64:ff9b::a9fe:a9fe, fec0::1 and 168.63.129.16 global.
SPECIAL_NETWORKS: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier (CGNAT)"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's internal service"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.31.196.0/24", "reserved for protocols"),
        ("192.52.193.0/24", "reserved for protocols"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved for protocols"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4 inside IPv6"),
        ("::/96", "IPv4 inside IPv6"),
        ("64:ff9b::/96", "IPv4 inside IPv6 (NAT64)"),
        ("64:ff9b:1::/48", "IPv4 inside IPv6 (NAT64)"),
        ("2001::/32", "IPv4 inside IPv6 (Teredo)"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "IPv4 inside IPv6 (6to4)"),
        ("2620:4f:8000::/48", "reserved for protocols"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
PUBLIC_IPV6 = IPv6Network("2000::/3")  # the only part of IPv6 that is assigned to the public internet
IPV4_IN_IPV6 = (IPv6Network("::ffff:0:0/96"), IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))

# The "bad ports" of the Fetch standard, and the usual ports of databases and brokers.
# fmt: off
BLOCKED_PORTS = frozenset((
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530,
    531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1433, 1521, 1719, 1720, 1723, 2049, 3306,
    3389, 3659, 4045, 4190, 4369, 5060, 5061, 5432, 5671, 5672, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679,
    6697, 10080, 11211, 25672, 27017,
))
# fmt: on
