"""URLs of others as they may be shown: what follows the path may be a signature or a token."""


def hide_query(url: str) -> str:
    """Return a URL without its query and its fragment."""
    return url.partition("#")[0].partition("?")[0]
