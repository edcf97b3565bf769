"""Where a consumer starts: offsets, watermarks, times."""

import pytest

from tests.clients.contract import Client, Message

START = 1_700_000_000_000
STEP = 1_000


@pytest.fixture
def numbered(client: Client, topic: str) -> str:
    """A topic with 1,000 records, one per second, whose value is their number."""
    client.create_topic(topic, 2)
    client.produce(topic, [Message(b"%d" % number, timestamp=START + number * STEP) for number in range(1_000)])
    return topic


@pytest.mark.parametrize("start", [0, 1, 499, 500, 998, 999])
def test_reading_starts_at_exactly_the_offset_that_was_asked_for(client: Client, numbered: str, start: int) -> None:
    records = client.consume(numbered, 1_000 - start, start=start)
    assert [(record.offset, record.value) for record in records] == [
        (offset, b"%d" % offset) for offset in range(start, 1_000)
    ]


def test_an_offset_out_of_range_starts_again_where_the_reset_policy_says(client: Client, numbered: str) -> None:
    records = client.consume(numbered, 3, start=5_000)
    assert [record.offset for record in records] == [0, 1, 2]


def test_watermarks_are_those_of_the_partition(client: Client, numbered: str) -> None:
    assert client.watermarks(numbered, 0) == (0, 1_000)
    assert client.watermarks(numbered, 1) == (0, 0)


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [
        (0, 0),
        (START, 0),
        (START + 1, 1),
        (START + 500 * STEP - 1, 500),
        (START + 500 * STEP, 500),
        (START + 500 * STEP + 1, 501),
        (START + 999 * STEP, 999),
        (START + 999 * STEP + 1, None),
    ],
)
def test_a_time_finds_the_first_record_at_or_after_it(
    client: Client, numbered: str, timestamp: int, offset: int | None
) -> None:
    assert client.offset_for_time(numbered, timestamp) == offset


def test_no_time_finds_anything_in_an_empty_partition(client: Client, numbered: str) -> None:
    assert client.offset_for_time(numbered, START, partition=1) is None


def test_times_that_go_backwards_still_find_the_first_record_in_order_of_offsets(client: Client, topic: str) -> None:
    client.create_topic(topic, 1)
    times = [START + 5, START + 9, START + 1, START + 7, START + 20, START + 3]
    for time in times:  # one batch each
        client.produce(topic, [Message(b"", timestamp=time)])
    assert [client.offset_for_time(topic, START + time) for time in (0, 5, 6, 9, 10, 20, 21)] == [
        *(0, 0, 1, 1, 4, 4),
        None,
    ]
