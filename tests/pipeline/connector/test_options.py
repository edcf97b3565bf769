"""The options of Spark's connector, without Spark."""

from datetime import UTC, datetime
from typing import Any

import pytest

from minibroker_pipeline.connector import TopicSource
from minibroker_pipeline.payloads import Payload

NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)


def options(*, is_stream: bool = True, **source: Any) -> dict[str, str]:
    return TopicSource(bootstrap="127.0.0.1:9092", **source).reader_options(is_stream=is_stream)


def test_a_stream_begins_with_the_first_committed_record_and_has_no_end() -> None:
    assert options(topics="a") == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.isolation.level": "read_committed",
        "subscribe": "a",
        "startingOffsets": "earliest",
    }


def test_offsets_and_instants_are_written_as_the_connector_reads_them() -> None:
    reader_options = options(topics=["a", "b"], starting={"a": {0: 5, 1: -2}}, ending={"a": {0: NOON}}, is_stream=False)
    assert reader_options["subscribe"] == "a,b"
    assert reader_options["startingOffsets"] == '{"a": {"0": 5, "1": -2}}'
    assert reader_options["endingOffsetsByTimestamp"] == '{"a": {"0": 1715947200000}}'
    assert options(topics="a", starting=NOON)["startingTimestamp"] == "1715947200000"


def test_given_options_win() -> None:
    reader_options = options(
        topics="a", max_offsets_per_trigger=10, headers=True, options={"kafka.isolation.level": "x"}
    )
    assert reader_options["kafka.isolation.level"] == "x"
    assert (reader_options["maxOffsetsPerTrigger"], reader_options["includeHeaders"]) == ("10", "true")


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ({}, "topics: name at least one"),
        ({"topics": "a", "pattern": "b"}, "one of them, not both"),
        ({"topics": "a", "starting": "first"}, "starting: 'first' is neither earliest nor latest"),
        ({"topics": "a", "starting": NOON.replace(tzinfo=None)}, "has no time zone"),
        ({"topics": "a", "starting": {"a": {0: NOON, 1: 5}}}, "not some of both"),
        ({"topics": "a", "ending": NOON}, "a stream has no end"),
    ],
)
def test_what_makes_no_sense_is_refused(source: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        options(**source)


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (("xml", "a INT"), "not one of raw, json, avro"),
        (("json",), "json needs one"),
        (("raw", "a INT"), "raw values have none"),
        (("avro", "{"), "not the JSON of an Avro schema"),
        (("json", "a INT", "lenient"), "neither failfast nor permissive"),
    ],
)
def test_a_payload_that_makes_no_sense_is_refused(payload: tuple[Any, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Payload(*payload)
