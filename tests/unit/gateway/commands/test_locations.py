"""Which locations an operator cannot give away."""

import pytest

from common.errors import CharoniaError
from services.gateway.commands.locations.__main__ import LocationSettings, allow, parse


@pytest.mark.parametrize(
    ("location", "store"),
    [("s3://charonia/", "s3://charonia"), ("s3://charonia/files/", "s3://charonia/files")],
)
async def test_charonias_own_store_is_refused_before_anything_is_written(location: str, store: str) -> None:
    settings = LocationSettings("postgresql://nobody@127.0.0.1:1/none", (), store_url=store)
    with pytest.raises(CharoniaError, match=f"{location} is Charonia's own store .* allow another bucket"):
        await allow(settings, parse(["allow", "acme", location]))
