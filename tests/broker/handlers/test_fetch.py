"""Fetch without a session: records, limits and delays."""

from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchResponse
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import (
    Configured,
    Harness,
    Pending,
    batch,
    bytes_in,
    fetch_request,
    only_partition,
    partitions_of,
    produce_request,
    values_in,
)
from tests.broker.logs.world import log_of

VERSIONS = range(4, 19)


def waiting(harness: Harness, *partitions: tuple[str, int, int], version: int = 12, **fields: Any) -> Pending:
    """Send a fetch, and assert that it is delayed."""
    pending = harness.send(fetch_request(*partitions, **fields), version)
    assert isinstance(pending, Pending)
    return pending


def fill_many(harness: Harness, count: int) -> None:
    """Create a topic "many" with a record in each partition."""
    harness.create("many", count)
    for partition in range(count):
        harness.produce(batch(b"a"), "many", partition)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_what_was_produced(harness: Harness, version: int) -> None:
    harness.produce(batch(b"a", b"b"))
    data = harness.fetch_one(version=version)
    assert values_in(data.records) == [(0, b"a"), (1, b"b")]
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.preferred_read_replica == -1


def test_a_fetch_from_mid_batch_returns_the_whole_batch(harness: Harness) -> None:
    harness.produce(batch(b"a", b"b", b"c"))
    harness.produce(batch(b"d"))
    assert values_in(harness.fetch_one(1).records) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert values_in(harness.fetch_one(3).records) == [(3, b"d")]


def test_a_fetch_at_the_end_finds_nothing(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    data = harness.fetch_one(1)
    assert (data.error_code, data.high_watermark, bytes_in(data)) == (0, 1, b"")


@pytest.mark.parametrize("offset", [-1, 2, 2**62])
def test_an_offset_outside_of_the_log_is_out_of_range(harness: Harness, offset: int) -> None:
    harness.produce(batch(b"a"))
    data = harness.fetch_one(offset)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)


@pytest.mark.parametrize(("topic", "partition"), [("missing", 0), ("t", 1), ("t", -1)])
def test_an_unknown_topic_or_partition_is_said_so(harness: Harness, topic: str, partition: int) -> None:
    data = harness.fetch_one(0, topic, partition)
    assert (data.error_code, data.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_a_read_committed_fetch_names_aborted_transactions_and_others_leave_them_null(harness: Harness) -> None:
    assert harness.fetch_one(isolation_level=0).aborted_transactions is None
    assert harness.fetch_one(isolation_level=1).aborted_transactions == []


def test_a_consumer_that_knows_a_newer_leader_epoch_is_told_so(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    assert harness.fetch_one(current_leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    for epoch in (0, -1):
        assert harness.fetch_one(current_leader_epoch=epoch).error_code == 0
    assert harness.fetch_one(current_leader_epoch=1, version=8).error_code == 0  # Version 8 has no such field.


# Limits per partition and in total, with at least one whole batch (KIP-74)


def test_a_partition_gets_at_most_its_bytes_and_may_end_within_a_batch(harness: Harness) -> None:
    size = len(batch(b"a"))
    for value in (b"a", b"b", b"c"):
        harness.produce(batch(value))
    data = harness.fetch_one(partition_max_bytes=2 * size + 10)
    assert len(bytes_in(data)) == 2 * size + 10
    assert values_in(data.records) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize("limits", [{"partition_max_bytes": 1}, {"max_bytes": 1}, {"max_bytes": 0}])
def test_a_first_batch_that_is_too_large_is_returned_whole(harness: Harness, limits: dict[str, Any]) -> None:
    harness.produce(batch(b"a" * 1000))
    harness.produce(batch(b"b"))
    assert values_in(harness.fetch_one(**limits).records) == [(0, b"a" * 1000)]


def test_only_the_first_partition_with_data_may_exceed_the_limits(harness: Harness) -> None:
    harness.create("many", 3)
    for partition in (1, 2):
        harness.produce(batch(b"a"), "many", partition)
    response = harness.fetch(("many", 0, 0), ("many", 1, 0), ("many", 2, 0), partition_max_bytes=1)
    values = [values_in(data.records) for data in response.responses[0].partitions]
    assert values == [[], [(0, b"a")], []]


def test_all_partitions_together_get_at_most_max_bytes(harness: Harness) -> None:
    fill_many(harness, 3)
    size = len(batch(b"a"))
    response = harness.fetch(*(("many", partition, 0) for partition in range(3)), max_bytes=size + 5)
    sizes = [len(bytes_in(data)) for data in response.responses[0].partitions]
    assert sizes == [size, 0, 0]
    assert [data.high_watermark for data in response.responses[0].partitions] == [1, 1, 1]


@pytest.mark.parametrize("version", [4, 11, 18])
@pytest.mark.parametrize("isolation", [0, 1])
def test_a_later_partition_gets_whole_batches_or_nothing(harness: Harness, version: int, isolation: int) -> None:
    harness.create("many", 4)
    size = len(batch(b"a"))
    for partition, count in enumerate((1, 1, 3, 1)):
        for _ in range(count):
            harness.produce(batch(b"a"), "many", partition)
    partitions = [("many", partition, 0) for partition in range(4)]

    def sizes(**limits: int) -> list[int]:
        response = harness.fetch(*partitions, version=version, isolation_level=isolation, **limits)
        return [len(bytes_in(data)) for data in response.responses[0].partitions]

    assert sizes(partition_max_bytes=size - 1) == [size, 0, 0, 0]
    assert sizes(partition_max_bytes=size) == [size, size, size, size]
    assert sizes(partition_max_bytes=size + 7) == [size, size, size + 7, size]  # The cut batch is not the first one.
    assert sizes(max_bytes=2 * size + 9) == [size, size, 0, 0]
    assert sizes(max_bytes=4 * size - 1) == [size, size, 2 * size - 1, 0]


def test_a_first_batch_that_does_not_fit_counts_as_readable_and_is_no_reason_to_wait(harness: Harness) -> None:
    fill_many(harness, 2)
    size = len(batch(b"a"))
    partitions = (("many", 0, 0), ("many", 1, 0))
    response = harness.fetch(*partitions, partition_max_bytes=size - 1, min_bytes=2 * size - 2, max_wait_ms=500)
    assert [len(bytes_in(data)) for data in response.responses[0].partitions] == [size, 0]


def test_aborted_transactions_are_null_where_the_first_batch_does_not_fit(harness: Harness) -> None:
    fill_many(harness, 2)
    response = harness.fetch(("many", 0, 0), ("many", 1, 0), partition_max_bytes=10, isolation_level=1)
    assert [data.aborted_transactions for data in response.responses[0].partitions] == [[], None]


@pytest.mark.parametrize(("version", "expected"), [(1, [50, 50]), (2, [50, 50]), (3, [0, 0])])
def test_old_fetches_get_a_cut_message_up_to_version_2(harness: Harness, version: int, expected: list[int]) -> None:
    magic = 1 if version > 1 else 0
    harness.create("old", 3, message_format_version="0.10.0" if magic else "0.9.0")
    for partition in range(3):
        harness.produce(build_message_set([NewRecord(None, bytes(200), 1)], magic=magic), "old", partition, version=2)
    partitions = [("old", partition, 0) for partition in range(3)]
    response = harness.fetch(*partitions, version=version, partition_max_bytes=50)
    assert [len(bytes_in(data)) for data in response.responses[0].partitions][1:] == expected


def test_the_broker_has_a_limit_of_its_own(configured: Configured) -> None:
    harness = configured({"fetch.max.bytes": "1024"})
    for _ in range(5):
        harness.produce(batch(bytes(500)))
    assert len(bytes_in(harness.fetch_one())) == 1024


def test_partitions_are_answered_in_the_order_of_the_request(harness: Harness) -> None:
    harness.create("many", 3)
    response = harness.fetch(("many", 2, 0), ("t", 0, 0), ("many", 0, 0))
    assert partitions_of(response.responses) == [("many", 2), ("many", 0), ("t", 0)]


def test_a_fetch_of_nothing_is_answered_at_once(harness: Harness) -> None:
    assert harness.ask(fetch_request(max_wait_ms=500), 12).responses == []


# Delays until min_bytes are available, max_wait_ms have passed, or an error occurs


def test_without_data_the_answer_waits_for_its_time(harness: Harness) -> None:
    pending = waiting(harness, ("t", 0, 0), max_wait_ms=500)
    harness.clock.advance(499)
    assert not pending.is_answered
    harness.clock.advance(1)
    data = only_partition(pending.response)
    assert (data.error_code, data.high_watermark, values_in(data.records)) == (0, 0, [])


@pytest.mark.parametrize("fields", [{"max_wait_ms": 0}, {"max_wait_ms": -1}, {"min_bytes": 0}, {"min_bytes": -1}])
def test_a_fetch_that_does_not_want_to_wait_does_not(harness: Harness, fields: dict[str, Any]) -> None:
    assert only_partition(harness.ask(fetch_request(("t", 0, 0), **fields), 12)).error_code == 0


def test_an_append_wakes_the_waiting_fetch(harness: Harness) -> None:
    pending = waiting(harness, ("t", 0, 0))
    harness.produce(batch(b"a"))
    assert values_in(only_partition(pending.response).records) == [(0, b"a")]
    harness.clock.advance(10_000)  # The timer is gone: a second response would be an error.


def test_an_append_to_another_partition_does_not_wake_it(harness: Harness) -> None:
    harness.create("other")
    pending = waiting(harness, ("t", 0, 0))
    harness.produce(batch(b"a"), "other")
    assert not pending.is_answered


def test_a_fetch_that_wants_more_waits_for_more(harness: Harness) -> None:
    size = len(batch(b"a"))
    pending = waiting(harness, ("t", 0, 0), min_bytes=2 * size)
    harness.produce(batch(b"a"))
    assert not pending.is_answered
    harness.produce(batch(b"b"))
    assert values_in(only_partition(pending.response).records) == [(0, b"a"), (1, b"b")]


def test_when_the_time_is_up_less_than_min_bytes_is_told(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    pending = waiting(harness, ("t", 0, 0), min_bytes=1_000_000)
    harness.clock.advance(500)
    assert values_in(only_partition(pending.response).records) == [(0, b"a")]


def test_what_lies_in_an_older_segment_does_not_wait_for_more_than_a_range_can_hold(harness: Harness) -> None:
    size = len(batch(b"a"))
    harness.create("rolled", segment_bytes=str(size + 1))
    for value in (b"a", b"b"):
        harness.produce(batch(value), "rolled")
    data = only_partition(harness.ask(fetch_request(("rolled", 0, 0), min_bytes=100_000), 12))
    assert values_in(data.records) == [(0, b"a")]
    pending = waiting(harness, ("rolled", 0, 1), min_bytes=100_000)
    harness.produce(batch(b"c"), "rolled")
    assert values_in(only_partition(pending.response).records) == [(1, b"b")]


def test_a_range_that_ends_with_a_whole_batch_counts_as_if_it_had_been_cut_at_the_limit(harness: Harness) -> None:
    size = len(batch(b"a"))
    harness.create("indexed", index_interval_bytes="0")
    for value in (b"a", b"b", b"c"):
        harness.produce(batch(value), "indexed")
    limit = 2 * size + 1
    data = only_partition(harness.ask(fetch_request(("indexed", 0, 0), partition_max_bytes=limit, min_bytes=limit), 12))
    assert values_in(data.records) == [(0, b"a"), (1, b"b")]
    waiting(harness, ("indexed", 0, 0), partition_max_bytes=limit, min_bytes=limit + 1)
    waiting(harness, ("indexed", 0, 1), partition_max_bytes=limit, min_bytes=limit)


def test_nobody_waits_for_more_than_the_limit_of_the_request(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    data = only_partition(harness.ask(fetch_request(("t", 0, 0), max_bytes=10, min_bytes=100_000), 12))
    assert values_in(data.records) == [(0, b"a")]


def test_a_reader_of_committed_data_waits_where_the_open_transaction_begins(harness: Harness) -> None:
    size = len(batch(b"a"))
    harness.create("open", segment_bytes=str(2 * size))
    harness.produce(batch(b"a"), "open")
    Producer(harness).write(b"b", topic="open")
    harness.produce(batch(b"c"), "open")
    assert len(log_of(harness, "open").segments) == 2
    waiting(harness, ("open", 0, 0), isolation_level=1, min_bytes=2 * size)
    data = only_partition(harness.ask(fetch_request(("open", 0, 0), min_bytes=3 * size), 12))
    assert values_in(data.records) == [(0, b"a"), (1, b"b")]


def test_bytes_of_several_partitions_count_together(harness: Harness) -> None:
    harness.create("many", 2)
    harness.produce(batch(b"a"), "many", 0)
    pending = waiting(harness, ("many", 0, 0), ("many", 1, 0), min_bytes=2 * len(batch(b"a")))
    harness.produce(batch(b"b"), "many", 1)
    values = [values_in(data.records) for data in pending.response.responses[0].partitions]
    assert values == [[(0, b"a")], [(0, b"b")]]


def test_appends_of_one_wake_up_are_told_together(harness: Harness) -> None:
    pending = waiting(harness, ("t", 0, 0))
    for value in (b"a", b"b", b"c"):
        harness.accept(produce_request(batch(value)), 9)
    harness.core.writes.commit()
    assert not pending.is_answered
    harness.run_soon()
    assert values_in(only_partition(pending.response).records) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_what_is_not_written_is_not_fetched(harness: Harness) -> None:
    pending = waiting(harness, ("t", 0, 0))
    harness.accept(produce_request(batch(b"a")), 9)
    assert not pending.is_answered
    harness.clock.advance(500)  # The delay ends within the wake-up, and staged appends are written first.
    assert values_in(only_partition(pending.response).records) == [(0, b"a")]


def test_many_fetches_wait_for_the_same_partition(harness: Harness) -> None:
    pending = [waiting(harness, ("t", 0, 0)) for _ in range(10)]
    harness.produce(batch(b"a"))
    assert all(values_in(only_partition(response.response).records) == [(0, b"a")] for response in pending)


def test_a_client_that_goes_away_is_forgotten(harness: Harness) -> None:
    pending = waiting(harness, ("t", 0, 0))
    pending.cancel()
    harness.produce(batch(b"a"))
    harness.clock.advance(500)
    assert not pending.is_answered


@pytest.mark.parametrize("fields", [{"current_leader_epoch": 5}, {"offset": 9}])
def test_an_error_ends_the_wait(harness: Harness, fields: dict[str, Any]) -> None:
    harness.create("idle")
    fetched = ("t", 0, fields.pop("offset", 0))
    response = harness.ask(fetch_request(fetched, ("idle", 0, 0), **fields), 12)
    assert response.responses[0].partitions[0].error_code != 0


def test_an_unknown_partition_alone_is_answered_at_once(harness: Harness) -> None:
    assert only_partition_error(harness.ask(fetch_request(("missing", 0, 0)), 12)) == [3]


def test_an_unknown_partition_does_not_end_the_wait_for_others(harness: Harness) -> None:
    for min_bytes in (1, 100_000):
        pending = waiting(harness, ("t", 0, 0), ("missing", 0, 0), min_bytes=min_bytes)
        harness.clock.advance(499)
        assert not pending.is_answered
        harness.clock.advance(1)
        assert only_partition_error(pending.response) == [0, 3]


def only_partition_error(response: FetchResponse) -> list[int]:
    return [data.error_code for topic in response.responses for data in topic.partitions]


def test_a_topic_that_is_deleted_meanwhile_is_unknown_at_once(harness: Harness) -> None:
    pending = waiting(harness, ("t", 0, 0))
    harness.delete()
    harness.run_soon()  # The deletion ends the delay without any time passing.
    assert only_partition_error(pending.response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# Topics with zstd are refused before version 10 (KIP-110)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_of_zstd_needs_a_version_that_kafka_4_serves(harness: Harness, version: int) -> None:
    harness.create("small", compression_type="zstd")
    harness.produce(batch(b"a"), "small")
    data = harness.fetch_one(0, "small", version=version)
    assert data.error_code == (0 if version >= 4 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    assert values_in(data.records) == ([(0, b"a")] if version >= 4 else [])


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 4])
def test_what_producers_have_compressed_with_zstd_is_for_all_clients_of_format_v2(
    harness: Harness, version: int
) -> None:
    harness.produce(batch(b"a"))
    harness.produce(batch(b"b", codec=CompressionCodec.ZSTD))
    assert values_in(harness.fetch_one(version=version).records) == [(0, b"a"), (1, b"b")]


def test_a_log_that_cannot_be_opened_is_a_storage_error(harness: Harness, tmp_path: Path) -> None:
    harness.create("broken")
    (tmp_path / "data" / "broken-0").write_text("no directory")
    data = harness.fetch_one(0, "broken")
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_fetch_goes_on_in_the_next_segment(harness: Harness) -> None:
    harness.create("small", 1, segment_bytes="200")
    for index in range(10):
        harness.produce(batch(b"%d" % index * 50), "small")
    values: list[tuple[int, bytes | None]] = []
    while len(values) < 10:
        values += values_in(harness.fetch_one(len(values), "small").records)
    assert values == [(index, b"%d" % index * 50) for index in range(10)]


@pytest.mark.parametrize(
    ("at", "damage", "first", "second"),
    [
        (8, "00000000", 2, 2),  # the length
        (8, "0000000d", 2, 2),
        (8, "fffffffb", 2, 2),
        (0, "ff" * 70, 2, 2),
        (8, "10000000", 0, 0),
        (16, "09", 140, 70),  # the magic
        (17, "00000000", 140, 70),  # the checksum
        (63, "ffff", 140, 70),  # the records
    ],
)
def test_only_a_batch_whose_length_is_damaged_on_disk_is_corrupt(
    harness: Harness, at: int, damage: str, first: int, second: int
) -> None:
    """The values are those of Kafka 4.4.0 for fetches of offsets 1 and 2 with the second of three batches damaged."""
    for value in (b"v0", b"v1", b"v2"):
        harness.produce(batch(value))
    harness.restart()  # The positions of batches are not cached after a restart.
    log = log_of(harness)
    with Path(log.directory, "00000000000000000000.log").open("r+b") as file:
        file.seek(log.size // 3 + at)
        file.write(bytes.fromhex(damage))
    assert log.size == 210
    for offset, outcome in ((1, first), (2, second)):
        for max_bytes in (1 << 20, 1):
            data = harness.fetch_one(offset, partition_max_bytes=max_bytes)
            size = len(bytes_in(data))
            assert (data.error_code or size) == (min(outcome, 70) if max_bytes == 1 else outcome), (offset, max_bytes)
