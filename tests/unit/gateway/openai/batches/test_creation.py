"""How long the lines of a batch may wait."""

import pytest

from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import Problem
from services.gateway.openai.batches.creation import check_request, read_window
from services.gateway.openai.batches.schemas import BatchRequest


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("90m", 5400), ("24h", 86_400), ("30d", 2_592_000)])
def test_a_window_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    assert read_window(text) == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "0h", "24h\n", "1.5h", "24 h", "31d", "9999999d", "\u0662h"])
def test_another_window_is_refused(text: str) -> None:
    with pytest.raises(Problem) as raised:
        read_window(text)
    assert (raised.value.status, raised.value.errors[0].pointer) == (422, "/completion_window")


@pytest.mark.parametrize("text", ["24", "24h\\n", "a day"])
def test_a_wrong_window_of_a_request_gets_an_example(text: str) -> None:
    body = f'{{"input_file_id": "file_1", "endpoint": "/v1/embeddings", "completion_window": "{text}"}}'
    with pytest.raises(Problem, match="expected a number of s, m, h or d, such as 24h"):
        check_request(decode_body(body, BatchRequest))
