"""Rates, as Kafka works them out."""

import pytest

from minibroker.server.quotas.rates import Rate, TokenBucket

SAMPLES, STEP_MS = 11, 1000


def test_a_rate_is_taken_over_the_whole_window_from_its_first_moment() -> None:
    rate = Rate(SAMPLES, STEP_MS)
    rate.record(5000, 0)
    assert rate.measure(0) == 500  # ten whole steps are assumed to lie behind
    assert rate.measure(5_000) == 500
    assert rate.measure(10_500) == pytest.approx(5000 / 10.5)


def test_what_is_older_than_the_window_is_forgotten() -> None:
    rate = Rate(SAMPLES, STEP_MS)
    rate.record(5000, 0)
    assert rate.measure(11_000) == 0


def test_a_wait_brings_the_rate_down_to_the_limit() -> None:
    rate = Rate(SAMPLES, STEP_MS)
    rate.record(30_000, 0)
    assert rate.throttle_ms(1000, 0) == 20_000  # 3000/s over 10 s: (3000 - 1000) / 1000 * 10 s
    assert rate.throttle_ms(3000, 0) == 0


def test_steps_go_one_by_one() -> None:
    rate = Rate(SAMPLES, STEP_MS)
    for second in range(20):
        rate.record(100, second * STEP_MS)
    assert rate.measure(19_000) == pytest.approx(1100 / 10)
    assert rate.measure(25_500) == pytest.approx(500 / 10.5)  # those of seconds 15 to 19 are left


def test_a_bucket_gives_what_a_window_brings_back_and_then_owes() -> None:
    bucket = TokenBucket(11, 2, 0)
    bucket.take(22, 2, 0)
    assert bucket.debt_ms(2, 0) == 0
    bucket.take(10, 2, 0)
    assert bucket.debt_ms(2, 0) == 5_000
    assert bucket.debt_ms(2, 4_000) == 1_000
    assert bucket.debt_ms(2, 5_000) == 0


def test_a_bucket_never_holds_more_than_a_window_brings_back() -> None:
    bucket = TokenBucket(11, 2, 0)
    bucket.take(0, 2, 1_000_000)
    bucket.take(24, 2, 1_000_000)
    assert bucket.debt_ms(2, 1_000_000) == 1_000
