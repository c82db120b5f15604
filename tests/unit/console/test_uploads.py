"""Files of the user as inputs of a job."""

import pytest
from playwright.async_api import Error

from tests.unit.console.conftest import CallJs


async def test_a_file_that_is_larger_than_the_input_takes_is_not_sent(call_js: CallJs) -> None:
    tensor = {"name": "image", "datatype": "BYTES", "shape": [1], "reference": False, "max_bytes": 2 * 1024 * 1024}
    with pytest.raises(Error, match=r"image: the file has 3\.0 MiB; this input takes 2\.0 MiB at most"):
        await call_js("uploads.js", "sendFile", tensor, {"size": 3 * 1024 * 1024, "type": ""})
