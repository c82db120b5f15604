"""What Triton's metrics say about its memory."""

import httpx
import pytest

from services.dispatcher.residency.memory import Meter, read_used

PAGE = """
# HELP nv_gpu_memory_used_bytes GPU used memory, in bytes
# TYPE nv_gpu_memory_used_bytes gauge
nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 3221225472.000000
nv_gpu_memory_used_bytes{gpu_uuid="GPU-2"} 1073741824.000000
nv_gpu_memory_total_bytes{gpu_uuid="GPU-1"} 85899345920.000000
nv_cpu_memory_used_bytes 9.5e9
"""


def test_all_gpus_count_and_without_one_the_machine() -> None:
    assert read_used(PAGE) == 4 * 2**30
    assert read_used("nv_cpu_memory_used_bytes 9.5e9\n") == 9_500_000_000
    assert read_used("nv_cpu_memory_total_bytes 9.5e9\n") is None


@pytest.mark.parametrize(
    ("status", "page", "used"), [(200, PAGE, 4 * 2**30), (503, PAGE, None), (200, "nothing 1\n", None)]
)
async def test_a_page_without_an_answer_is_logged_once(
    status: int, page: str, used: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    answer = httpx.MockTransport(lambda _request: httpx.Response(status, text=page))
    meter = Meter("http://triton:8002/metrics", lambda: answer)
    with caplog.at_level("WARNING"):
        assert [await meter.read() for _ in range(2)] == [used, used]
    assert [record.message for record in caplog.records] == ([] if used else ["residency.not_measured"])


async def test_nobody_asks_without_a_url() -> None:
    meter = Meter("")
    assert (meter.is_on, await meter.read()) == (False, None)
