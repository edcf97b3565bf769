"""Records with the same layout are checked at once, with the same results as one by one."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import RECORD_BATCH_OVERHEAD
from minibroker_protocol.records.record import NewRecord, walk_records
from minibroker_protocol.records.record_runs import MIN_RUN_RECORDS, check_records, check_runs

START = 1_700_000_000_000
WITH_HEADERS = (("trace", b"0123456789abcdef"), ("null", None), ("long", b"x" * 70))


def records_of(
    count: int,
    *,
    size: int = 20,
    key: bytes | None = None,
    step: int = 0,
    growing: int = 0,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> memoryview:
    """Return the records of a batch. Each value is `growing` bytes longer than the previous one."""
    new = [NewRecord(key, bytes([n % 256]) * (size + n * growing), START + n * step, headers) for n in range(count)]
    return memoryview(bytes(build_batch(new)))[RECORD_BATCH_OVERHEAD:]


def outcome(check: Callable[[], int | None]) -> int | str | None:
    try:
        return check()
    except InvalidRecordError as error:
        return str(error)


def assert_alike(data: memoryview, count: int) -> int | str | None:
    """Check that both checks return the same result or raise the same error, and return it."""
    walked = outcome(lambda: walk_records(data, 0, count))
    assert outcome(lambda: check_records(data, 0, count)) == walked
    assert outcome(lambda: check_records(bytes(data), 0, count)) == walked
    return walked


@pytest.mark.parametrize("count", [4, 8, 63, 64, 65, 68, 200, 9_000])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 100, 8_000])
def test_records_of_one_layout_are_one_run_for_each_width_of_offset_delta(count: int, size: int) -> None:
    if count * size > 2_000_000:
        count = 200
    data = records_of(count, size=size, headers=WITH_HEADERS if size == 100 else ())
    passed = check_runs(data, 0, count)
    left_over = MIN_RUN_RECORDS - 1  # Too few records for a run of their own.
    assert min(count, 8_192) - left_over <= passed.records <= min(count, 8_192)
    assert passed.largest == 0
    assert_alike(data, count)


@pytest.mark.parametrize("step", [0, 1, 5, 300, 40_000, 3_000_000])
def test_the_largest_timestamp_delta_is_found(step: int) -> None:
    data = records_of(60, step=step)
    assert check_records(data, 0, 60) == 59 * step == walk_records(data, 0, 60)
    assert (check_runs(data, 0, 60).records > 0) or step > 0


def test_the_largest_delta_may_stand_anywhere_in_a_run() -> None:
    times = [100, 900, 500, 8_191, 64, 3_000, 127, 128]
    data = memoryview(bytes(build_batch([NewRecord(None, b"v", START + time) for time in [0, *times]])))
    first = RECORD_BATCH_OVERHEAD
    first += 1 + data[first] // 2  # the record whose delta takes one byte
    body = bytearray(data[first:])
    size = len(body) // len(times)
    for number in range(len(times)):
        body[number * size + 4] = 2 * number  # Each batch starts at delta 0.
    assert check_runs(bytes(body), 0, len(times)) == (len(times), len(body), 2 * 8_191)
    assert_alike(memoryview(body), len(times))


@pytest.mark.parametrize("growing", [1, 7])
def test_records_of_different_sizes_are_no_run(growing: int) -> None:
    data = records_of(40, growing=growing)
    assert check_runs(data, 0, 40) == (0, 0, -1)
    assert_alike(data, 40)


def test_a_run_ends_before_the_first_record_of_another_layout() -> None:
    new = (
        [NewRecord(b"k", b"v" * 30, START)] * 10
        + [NewRecord(b"kk", b"v" * 29, START)] * 10
        + [NewRecord(None, None, START)]
    )
    data = memoryview(bytes(build_batch(new)))[RECORD_BATCH_OVERHEAD:]
    assert check_runs(data, 0, 21).records == 20
    assert check_runs(data, 0, 9).records == 9
    assert_alike(data, 21)


def test_each_byte_that_is_changed_has_the_same_outcome_as_in_the_walk() -> None:
    count = 70
    data = records_of(count, size=66, key=b"key", step=2, headers=(("h", b"v"),))
    assert check_runs(data, 0, count).records >= 64
    refused = 0
    for place in [*range(100), *range(30 * 80, 33 * 80), *range(len(data) - 160, len(data))]:
        for change in (1, 2, 0x40, 0x80):
            damaged = bytearray(data)
            damaged[place] ^= change
            refused += isinstance(assert_alike(memoryview(damaged), count), str)
    assert refused > 200


@pytest.mark.parametrize("cut", [1, 3, 40, 85, 400])
def test_a_run_that_is_cut_short_is_refused(cut: int) -> None:
    data = records_of(50, size=80)
    with pytest.raises(InvalidRecordError):
        check_records(data[:-cut], 0, 50)
    assert_alike(data[:-cut], 50)


def test_bytes_behind_a_run_are_refused() -> None:
    data = records_of(50)
    for count in (49, 46):
        with pytest.raises(InvalidRecordError, match=f"record count: {count}, but"):
            check_records(data, 0, count)


VALUES = st.integers(0, 90) | st.sampled_from([8_000, 9_000])
SHAPES = st.tuples(
    st.integers(1, 30),  # record count
    st.none() | st.integers(0, 70),  # key size
    st.none() | VALUES,
    st.integers(0, 3),  # headers
    st.sampled_from([0, 0, 1, 40, 5_000, -3]),  # milliseconds between records
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[bytearray, int]:
    """Generate groups of records with the same layout and different contents, with some bytes possibly changed."""
    new: list[NewRecord] = []
    time = START
    for count, key, value, headers, step in draw(st.lists(SHAPES, min_size=1, max_size=4)):
        for _ in range(count):
            fill = len(new) % 251
            pairs = tuple((f"h{n}", bytes([fill]) * (40 * n) if n else None) for n in range(headers))
            time += step
            new.append(
                NewRecord(
                    None if key is None else bytes([fill]) * key,
                    None if value is None else bytes([255 - fill]) * value,
                    time,
                    pairs,
                )
            )
    data = bytearray(build_batch(new)[RECORD_BATCH_OVERHEAD:])
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=3)):
        data[place % len(data)] = byte
    return data, len(new) + draw(st.sampled_from([0, 0, 0, -1, 1]))


@given(batches())
@settings(deadline=None, max_examples=300)
def test_whatever_the_records_are_the_outcome_is_that_of_the_walk(drawn: tuple[bytearray, int]) -> None:
    data, count = drawn
    if count > 0:
        assert_alike(memoryview(data), count)
