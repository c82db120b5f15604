"""The gateway's settings."""

from common.settings import Settings


class GatewaySettings(Settings, frozen=True, kw_only=True):
    encryption_keys: tuple[str, ...]  # seal webhook secrets; the first seals, all open
    bootstrap_key: str = ""  # an API key of the tenant "default", made at the start
    public_url: str = ""  # goes before the paths in a job's urls
    trace_url: str = ""  # where traces are looked at, such as http://localhost:16686
    max_body: int = 16 * 1024 * 1024  # bytes of a request's body
    database_pool: int = 10
    # Callbacks and subscriptions: https to public addresses only, unless these allow more.
    allowed_networks: tuple[str, ...] = ()
    allow_http: bool = False
