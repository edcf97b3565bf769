"""The names in a data directory, and the small files whose presence has a meaning."""

import json
import re
from pathlib import Path

import pytest

from minibroker_storage.data_directory.clean_shutdown import boot_id, is_marked_clean, mark_clean, unmark_clean
from minibroker_storage.data_directory.names import (
    TEMPORARY_DIRECTORY,
    TopicsFileError,
    format_topics_file,
    parse_partition_directory,
    parse_topics_file,
    topics_file_line,
)
from minibroker_storage.layout import delete_directory_name


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", ("orders", 0)),
        ("a.b_c-d-12", ("a.b_c-d", 12)),
        ("-0-2147483647", ("-0", 2**31 - 1)),
        (f"{'t' * 249}-3", ("t" * 249, 3)),
    ],
)
def test_a_partition_directory_says_topic_and_number(name: str, partition: tuple[str, int]) -> None:
    assert parse_partition_directory(name) == partition


@pytest.mark.parametrize(
    "name",
    ["orders", "-0", "orders-", "orders-007", "orders-00", "orders--", "or ders-0", "orders-0\n", "orders-\u0663",
     f"orders-{2**31}", f"{'t' * 250}-3", "orders-0.kept", "../orders-0"],
)  # fmt: skip
def test_another_name_is_no_partition_directory(name: str) -> None:
    assert parse_partition_directory(name) is None


def test_the_directory_of_a_deleted_partition_is_known_by_its_name() -> None:
    match = TEMPORARY_DIRECTORY.fullmatch(delete_directory_name("orders-0"))
    assert match is not None
    assert match["state"] == "delete"
    assert parse_partition_directory(match.string) is None
    assert TEMPORARY_DIRECTORY.fullmatch("orders-0-delete") is None


def test_a_directory_is_marked_clean_until_the_mark_is_removed(tmp_path: Path) -> None:
    marks = [is_marked_clean(str(tmp_path))]
    mark_clean(str(tmp_path))
    marks.append(is_marked_clean(str(tmp_path)))
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}
    unmark_clean(str(tmp_path))
    unmark_clean(str(tmp_path))
    assert [*marks, is_marked_clean(str(tmp_path))] == [False, True, False]


def test_the_topics_file_keeps_its_lines() -> None:
    topics = {"orders": {"id": "x", "partitions": 4}, "b": {"id": "y", "partitions": 1, "configs": {"a": "b"}}}
    data = format_topics_file(1000, [topics_file_line(name, entry) for name, entry in topics.items()])
    assert parse_topics_file(data, "f") == {"version": 1, "next_producer_id": 1000, "topics": topics}
    assert len(data.splitlines()) == 1 + len(topics)
    assert parse_topics_file(format_topics_file(7, []), "f")["topics"] == {}


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"version": 2}', b"{}"])
def test_what_is_no_topics_file_is_refused_by_its_path(data: bytes) -> None:
    with pytest.raises(TopicsFileError, match=re.escape("/data/file")):
        parse_topics_file(data, "/data/file")


def test_the_machines_run_has_one_name() -> None:
    name = boot_id()
    assert name
    assert name == boot_id()
