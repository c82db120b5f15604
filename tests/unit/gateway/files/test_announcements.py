"""What the headers of an upload say."""

import pytest

from services.gateway.files.announcements import read_content_type
from services.gateway.http.problems import Problem


@pytest.mark.parametrize("headers", [{}, {"transfer-encoding": "Chunked"}, {"content-encoding": "identity"}])
def test_a_body_without_an_encoding_is_accepted(headers: dict[str, str]) -> None:
    assert read_content_type({"content-type": "image/png", **headers}) == "image/png"


@pytest.mark.parametrize(
    ("name", "value"),
    [("content-encoding", "gzip"), ("transfer-encoding", "gzip, chunked"), ("transfer-encoding", "gzip")],
)
def test_an_encoded_body_is_refused(name: str, value: str) -> None:
    with pytest.raises(Problem, match=rf"'{value}'") as refused:
        read_content_type({name: value})
    assert refused.value.status == 415
