"""The token bucket."""

from common.token_bucket import TokenBucket


def test_a_bucket_gives_its_rate_and_saves_one_second() -> None:
    now = 0.0
    bucket = TokenBucket(3, lambda: now)
    assert [bucket.acquire() for _ in range(4)] == [True, True, True, False]
    now = 0.4
    assert [bucket.acquire() for _ in range(2)] == [True, False]
    now = 100.0  # it saves no more than a second
    assert [bucket.acquire() for _ in range(4)] == [True, True, True, False]
