"""Logs as returned by the page's server."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from minibroker import Broker
from tests.broker.control.http import Control

VALUE = b"x" * 200


@pytest.fixture(scope="module")
def log_page() -> Iterator[Control]:
    """Yield a page that shows a topic with two segments and one record per batch."""
    topic = "filled:1:segment.bytes=20000,index.interval.bytes=1000,retention.ms=-1"
    with Broker(page=True, topics=[topic, "empty"]) as broker:
        for number in range(120):
            broker.produce("filled", VALUE, timestamp=1000 + number)
        yield Control(broker.page_url)


def test_all_partitions_are_listed_with_their_offsets(log_page: Control) -> None:
    logs = log_page.get("/data/logs")
    partitions = {partition["topic"]: partition for partition in logs["partitions"]}
    assert logs["count"] == 2
    assert partitions["filled"]["log_end_offset"] == partitions["filled"]["high_watermark"] == 120
    assert partitions["filled"]["segment_count"] == 2
    assert partitions["empty"]["log_end_offset"] == partitions["empty"]["size"] == 0


def test_a_log_has_its_segments_in_order(log_page: Control) -> None:
    log = log_page.get("/data/logs/filled/0")
    first, second = log["segments"]
    assert (first["base_offset"], first["end_offset"]) == (0, second["base_offset"])
    assert second["end_offset"] == 120
    assert second["is_active"]
    assert first["size"] + second["size"] == log["size"]
    assert (log["leader"], log["replicas"]) == (1, [1])


def batches(page: Control, offset: int) -> list[Any]:
    found_batches: list[Any] = page.get(f"/data/logs/filled/0/batches?offset={offset}")["batches"]
    return found_batches


def test_batches_lie_one_behind_the_other(log_page: Control) -> None:
    all_batches = batches(log_page, 0)
    assert [batch["base_offset"] for batch in all_batches] == list(range(120))
    for first, second in pairwise(all_batches):
        is_same = first["segment"] == second["segment"]
        assert second["position"] == (first["position"] + first["size"] if is_same else 0)


@pytest.mark.parametrize("offset", [0, 1, 40, 70, 119, 120, 5000])
def test_a_page_of_batches_begins_shortly_before_its_offset(log_page: Control, offset: int) -> None:
    page = batches(log_page, offset)
    assert page[0]["base_offset"] <= min(offset, 119)
    assert page[0]["base_offset"] >= min(offset, 120) - 20
    assert page[-1]["last_offset"] == 119


def test_entries_of_the_indexes_point_to_batches(log_page: Control) -> None:
    places = {(batch["segment"], batch["position"]): batch for batch in batches(log_page, 0)}
    for segment in {segment for segment, _ in places}:
        indexes = log_page.get(f"/data/logs/filled/0/indexes?segment={segment}")
        assert indexes["offset_entries"]
        for entry in indexes["offset_entries"]:
            assert places[segment, entry["position"]]["last_offset"] == entry["offset"]
            assert places[segment, entry["position"]]["is_indexed"]


def test_a_batch_has_its_bytes_and_fields(log_page: Control) -> None:
    batch = batches(log_page, 0)[3]
    detail = log_page.get(f"/data/logs/filled/0/batch?segment={batch['segment']}&position={batch['position']}")
    assert len(detail["hex"]) == 2 * batch["size"]
    assert VALUE.hex() in detail["hex"]
    (tree,) = detail["tree"]["children"]
    names = {child["name"]: child for child in tree["children"]}
    assert names["baseOffset"]["value"] == 3
    assert "offset" in detail["meanings"]["RecordBatch.base_offset"]["text"]


def test_the_steps_of_a_look_up_end_at_the_batch(log_page: Control) -> None:
    look_up = log_page.get("/data/logs/filled/0/find?offset=42")
    kinds = [step["kind"] for step in look_up["steps"]]
    assert kinds[:2] == ["bounds", "segment"]
    assert {"probe", "index", "scan"} <= set(kinds)
    assert kinds[-1] == "batch"
    assert look_up["found"]["offset"] == 42
    look_up = log_page.get("/data/logs/filled/0/find?time=1077")
    assert (look_up["found"]["offset"], look_up["found"]["timestamp"]) == (77, 1077)
    assert log_page.get("/data/logs/filled/0/find?offset=120")["found"] is None
    assert log_page.get("/data/logs/filled/0/find?offset=-5")["found"] is None


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
def test_what_is_not_there_is_refused(log_page: Control, path: str, status: int) -> None:
    assert log_page.ask("GET", f"/data/logs{path}").problem[0] == status


def test_bytes_within_a_batch_are_shown_as_damaged(log_page: Control) -> None:
    detail = log_page.get("/data/logs/filled/0/batch?segment=0&position=5")
    assert "ERROR" in str(detail["tree"])


def test_producers_have_their_last_sequences(log_page: Control) -> None:
    assert log_page.get("/data/logs/filled/0/producers") == {"producers": [], "aborted": []}
