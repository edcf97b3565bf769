"""Logs as returned by the page's server."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from minibroker import Broker
from tests.broker.control.http import Control

VALUE = b"x" * 200


@pytest.fixture(scope="module")
def filled() -> Iterator[Control]:
    """Yield a page that shows a topic with two segments and one record per batch."""
    topic = "filled:1:segment.bytes=20000,index.interval.bytes=1000,retention.ms=-1"
    with Broker(page=True, topics=[topic, "empty"]) as broker:
        for number in range(120):
            broker.produce("filled", VALUE, timestamp=1000 + number)
        yield Control(broker.page_url)


def test_all_partitions_are_listed_with_their_offsets(filled: Control) -> None:
    listed = filled.get("/data/logs")
    found = {partition["topic"]: partition for partition in listed["partitions"]}
    assert listed["count"] == 2
    assert found["filled"]["log_end_offset"] == found["filled"]["high_watermark"] == 120
    assert found["filled"]["segment_count"] == 2
    assert found["empty"]["log_end_offset"] == found["empty"]["size"] == 0


def test_a_log_has_its_segments_in_order(filled: Control) -> None:
    log = filled.get("/data/logs/filled/0")
    first, second = log["segments"]
    assert (first["base_offset"], first["end_offset"]) == (0, second["base_offset"])
    assert second["end_offset"] == 120
    assert second["is_active"]
    assert first["size"] + second["size"] == log["size"]
    assert (log["leader"], log["replicas"]) == (1, [1])


def batches(page: Control, offset: int) -> list[Any]:
    listed: list[Any] = page.get(f"/data/logs/filled/0/batches?offset={offset}")["batches"]
    return listed


def test_batches_lie_one_behind_the_other(filled: Control) -> None:
    listed = batches(filled, 0)
    assert [batch["base_offset"] for batch in listed] == list(range(120))
    for one, other in pairwise(listed):
        is_same = one["segment"] == other["segment"]
        assert other["position"] == (one["position"] + one["size"] if is_same else 0)


@pytest.mark.parametrize("offset", [0, 1, 40, 70, 119, 120, 5000])
def test_a_page_of_batches_begins_shortly_before_its_offset(filled: Control, offset: int) -> None:
    listed = batches(filled, offset)
    assert listed[0]["base_offset"] <= min(offset, 119)
    assert listed[0]["base_offset"] >= min(offset, 120) - 20
    assert listed[-1]["last_offset"] == 119


def test_entries_of_the_indexes_point_to_batches(filled: Control) -> None:
    places = {(batch["segment"], batch["position"]): batch for batch in batches(filled, 0)}
    for segment in {segment for segment, _ in places}:
        indexes = filled.get(f"/data/logs/filled/0/indexes?segment={segment}")
        assert indexes["offset_entries"]
        for entry in indexes["offset_entries"]:
            assert places[segment, entry["position"]]["last_offset"] == entry["offset"]
            assert places[segment, entry["position"]]["is_indexed"]


def test_a_batch_has_its_bytes_and_fields(filled: Control) -> None:
    batch = batches(filled, 0)[3]
    found = filled.get(f"/data/logs/filled/0/batch?segment={batch['segment']}&position={batch['position']}")
    assert len(found["hex"]) == 2 * batch["size"]
    assert VALUE.hex() in found["hex"]
    (tree,) = found["tree"]["children"]
    names = {child["name"]: child for child in tree["children"]}
    assert names["baseOffset"]["value"] == 3
    assert "offset" in found["meanings"]["RecordBatch.base_offset"]["text"]


def test_the_steps_of_a_look_up_end_at_the_batch(filled: Control) -> None:
    found = filled.get("/data/logs/filled/0/find?offset=42")
    kinds = [step["kind"] for step in found["steps"]]
    assert kinds[:2] == ["bounds", "segment"]
    assert {"probe", "index", "scan"} <= set(kinds)
    assert kinds[-1] == "batch"
    assert found["found"]["offset"] == 42
    found = filled.get("/data/logs/filled/0/find?time=1077")
    assert (found["found"]["offset"], found["found"]["timestamp"]) == (77, 1077)
    assert filled.get("/data/logs/filled/0/find?offset=120")["found"] is None
    assert filled.get("/data/logs/filled/0/find?offset=-5")["found"] is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/none/0", 404),
        ("/filled/1", 404),
        ("/filled/x", 400),
        ("/filled/-1", 400),
        ("/filled/0/batch?segment=7&position=0", 404),
        ("/filled/0/batch?segment=0&position=99999999", 404),
        ("/filled/0/indexes?segment=7", 404),
        ("/filled/0/find", 400),
        ("/filled/0/find?offset=1&time=1", 400),
        ("/filled/0/find?offset=x", 400),
        ("/filled/0/batches?offset=-1", 400),
    ],
)
def test_what_is_not_there_is_refused(filled: Control, path: str, status: int) -> None:
    assert filled.ask("GET", f"/data/logs{path}").problem[0] == status


def test_bytes_within_a_batch_are_shown_as_damaged(filled: Control) -> None:
    found = filled.get("/data/logs/filled/0/batch?segment=0&position=5")
    assert "ERROR" in str(found["tree"])


def test_producers_have_their_last_sequences(filled: Control) -> None:
    assert filled.get("/data/logs/filled/0/producers") == {"producers": [], "aborted": []}
