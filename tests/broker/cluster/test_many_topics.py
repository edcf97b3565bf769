"""Requests about many topics, with a single write for all of them."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster import topics as topics_module
from minibroker.cluster.metadata_file import MetadataFile
from minibroker.config import BrokerConfig, TopicConfig
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import topics as topic_messages
from minibroker_protocol.messages.configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from minibroker_storage.data_directory.names import topics_file_line
from tests.broker.config.configs import TOPIC
from tests.broker.harness import Harness, create_request

FILE = "minibroker-topics.json"
NAMES = [f"n-{number}" for number in range(20)]
CONFIG = BrokerConfig.from_properties({})


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the replaced files."""
    real, names = os.replace, list[str]()

    def replace(source: str, target: str) -> None:
        names.append(os.path.basename(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    return names


def create(harness: Harness, partitions: int = 1) -> None:
    answer = harness.ask(create_request(*NAMES, partitions=partitions), 7)
    assert [topic.error_code for topic in answer.topics] == [0] * len(NAMES)


def alter(harness: Harness, kind: int, key: str, value: str) -> list[int]:
    resources = [
        AlterConfigsResource(resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, value=value)])
        for name in NAMES
    ]
    return [
        response.error_code
        for response in harness.ask(AlterConfigsRequest(resources=resources, validate_only=False), 2).responses
    ]


def test_topics_are_created_grown_configured_and_deleted_with_one_write_each(
    harness: Harness, writes: list[str]
) -> None:
    create(harness)
    assert writes == [FILE]
    growths = [topic_messages.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in NAMES]
    assert {
        result.error_code
        for result in harness.ask(topic_messages.CreatePartitionsRequest(topics=growths, timeout_ms=20_000), 2).results
    } == {0}
    assert writes == [FILE] * 2
    assert alter(harness, TOPIC, "retention.ms", "60000") == [0] * len(NAMES)
    assert writes == [FILE] * 3
    states = [topic_messages.DeleteTopicState(name=name) for name in NAMES[:10]]
    assert {
        response.error_code
        for response in harness.ask(topic_messages.DeleteTopicsRequest(topics=states, timeout_ms=20_000), 6).responses
    } == {0}
    assert writes == [FILE] * 4
    harness.restart()
    topics = {topic.name: (len(topic.partitions), dict(topic.config.overrides)) for topic in harness.core.topics}
    assert topics == {"t": (1, {}), **dict.fromkeys(NAMES[10:], (3, {"retention.ms": "60000"}))}


def test_configurations_that_cannot_be_written_are_taken_back_and_refused(harness: Harness) -> None:
    create(harness)
    os.mkdir(f"{harness.data_dir}/{FILE}.tmp")
    assert alter(harness, TOPIC, "retention.ms", "60000") == [ErrorCode.KAFKA_STORAGE_ERROR] * len(NAMES)
    assert all(not topic.config.overrides for topic in harness.core.topics)
    os.rmdir(f"{harness.data_dir}/{FILE}.tmp")


def test_only_the_topics_that_have_changed_are_encoded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    create(harness)
    encoded: list[str] = []

    def line_of(name: str, entry: dict[str, Any]) -> bytes:
        encoded.append(name)
        return topics_file_line(name, entry)

    monkeypatch.setattr(topics_module, "topics_file_line", line_of)
    harness.create("one", 2)
    harness.core.topics.configure_all([(harness.topic("one"), TopicConfig(CONFIG, {"retention.ms": "1"}))])
    assert encoded == ["one", "one"]


def test_a_file_in_the_place_of_a_directory_takes_all_back(harness: Harness) -> None:
    Path(harness.data_dir, "new-2").write_text("in the way")
    os.mkdir(f"{harness.data_dir}/t-1")
    os.mkdir(f"{harness.data_dir}/t-2")
    Path(harness.data_dir, "t-2", "file").write_text("in the way")
    answer = harness.ask(create_request("newer", "new", partitions=3), 7)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    growths = [topic_messages.CreatePartitionsTopic(name="t", count=3, assignments=None)]
    answer = harness.ask(topic_messages.CreatePartitionsRequest(topics=growths, timeout_ms=20_000), 2)
    assert [result.error_code for result in answer.results] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [(topic.name, len(topic.partitions)) for topic in harness.core.topics] == [("t", 1)]
    assert topics_in_file(harness) == {"t"}


def topics_in_file(harness: Harness) -> set[str]:
    return set(json.loads(Path(harness.data_dir, FILE).read_text())["topics"])


# A full disk.


class FullDisk:
    """A disk without space for the topics file until a condition holds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, until_gone: Callable[[], bool]) -> None:
        real = MetadataFile.write

        def write(file: MetadataFile, *arguments: Any, **named: Any) -> None:
            if file.path.endswith(FILE) and not until_gone():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
            real(file, *arguments, **named)

        monkeypatch.setattr(MetadataFile, "write", write)


def delete(harness: Harness, name: str) -> int:
    (outcome,) = harness.ask(topic_messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), 3).responses
    return int(outcome.error_code)


def test_a_full_disk_is_made_room_on_by_what_is_deleted(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.create("large", 2)

    def has_room() -> bool:
        names = [name for name in os.listdir(harness.data_dir) if name.startswith(("large", "deleted"))]
        return not any(os.listdir(f"{harness.data_dir}/{name}") for name in names)

    with monkeypatch.context() as patched:
        FullDisk(patched, has_room)
        assert delete(harness, "large") == 0
    assert topics_in_file(harness) == {"t"}
    assert [name for name in os.listdir(harness.data_dir) if "large" in name or "delete" in name] == []


def test_a_deletion_that_cannot_be_written_at_all_counts_after_a_restart(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("large", 2)
    with monkeypatch.context() as patched:
        FullDisk(patched, lambda: False)
        assert delete(harness, "large") == 0
        assert delete(harness, "large") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topics_in_file(harness) == {"t", "large"}
        harness.crash()
        assert [topic.name for topic in harness.core.topics] == ["t"]
    harness.crash()
    assert [topic.name for topic in harness.core.topics] == ["t"]
    assert topics_in_file(harness) == {"t"}
    assert [name for name in os.listdir(harness.data_dir) if "delete" in name] == []


def test_a_deletion_that_could_not_be_written_is_with_the_next_change(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("large")
    with monkeypatch.context() as patched:
        FullDisk(patched, lambda: False)
        assert delete(harness, "large") == 0
    harness.create("large")
    assert [name for name in os.listdir(harness.data_dir) if "delete" in name] == []
    harness.restart()
    assert sorted(topic.name for topic in harness.core.topics) == ["large", "t"]


def test_a_topic_that_cannot_be_renamed_stays(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(source: str, target: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), source)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        assert delete(harness, "t") == ErrorCode.KAFKA_STORAGE_ERROR
    assert topics_in_file(harness) == {"t"}
    assert delete(harness, "t") == 0
