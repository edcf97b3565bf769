"""Requests about many topics: one write for all, and slices between which other requests are served."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster import topics as topics_module
from minibroker.cluster.topics import Topics
from minibroker.cluster.topics_file import TopicsFile
from minibroker.config import BrokerConfig, TopicConfig
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from minibroker_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minibroker_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.elect_leaders import ElectLeadersRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_storage.data_directory.topics_file import topics_file_line
from tests.broker.cluster.nodes import create as create_by_hand
from tests.broker.config.configs import GROUP, TOPIC
from tests.broker.harness import Harness, batch

FILE = "minibroker-topics.json"
NAMES = [f"n-{number}" for number in range(20)]
CONFIG = BrokerConfig.from_properties({})


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were replaced."""
    real, seen = os.replace, list[str]()

    def replace(source: str, target: str) -> None:
        seen.append(os.path.basename(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    return seen


def create(harness: Harness, partitions: int = 1) -> None:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in NAMES]
    answer = harness.ask(CreateTopicsRequest(topics=topics), 7)
    assert [topic.error_code for topic in answer.topics] == [0] * len(NAMES)


def alter(harness: Harness, kind: int, key: str, value: str) -> list[int]:
    resources = [
        AlterConfigsResource(resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, value=value)])
        for name in NAMES
    ]
    return [
        each.error_code
        for each in harness.ask(AlterConfigsRequest(resources=resources, validate_only=False), 2).responses
    ]


def test_topics_that_metadata_creates_are_written_down_together(harness: Harness, writes: list[str]) -> None:
    requested_topics = [MetadataRequestTopic(name=name) for name in [*NAMES, "not a name"]]
    topics = harness.ask(MetadataRequest(topics=requested_topics, allow_auto_topic_creation=True), 9).topics
    assert [(topic.name, topic.error_code) for topic in topics] == [
        *((name, 0) for name in NAMES),
        ("not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert all(len(topic.partitions) == 1 for topic in topics[:-1])
    assert writes == [FILE]


def test_topics_are_created_grown_configured_and_deleted_with_one_write_each(
    harness: Harness, writes: list[str]
) -> None:
    create(harness)
    assert writes == [FILE]
    more = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in NAMES]
    assert {
        each.error_code for each in harness.ask(CreatePartitionsRequest(topics=more, timeout_ms=20_000), 2).results
    } == {0}
    assert writes == [FILE] * 2
    assert alter(harness, TOPIC, "retention.ms", "60000") == [0] * len(NAMES)
    assert writes == [FILE] * 3
    states = [DeleteTopicState(name=name) for name in NAMES[:10]]
    assert {
        each.error_code for each in harness.ask(DeleteTopicsRequest(topics=states, timeout_ms=20_000), 6).responses
    } == {0}
    assert writes == [FILE] * 4
    harness.restart()
    found = {topic.name: (len(topic.partitions), dict(topic.config.overrides)) for topic in harness.core.topics}
    assert found == {"t": (1, {}), **dict.fromkeys(NAMES[10:], (3, {"retention.ms": "60000"}))}


def test_groups_are_configured_with_one_write(harness: Harness, writes: list[str]) -> None:
    assert alter(harness, GROUP, "consumer.session.timeout.ms", "50000") == [0] * len(NAMES)
    assert writes == ["minibroker-cluster.json"]
    assert harness.core.configs.of_group(NAMES[-1]) == {"consumer.session.timeout.ms": "50000"}


def test_configurations_that_cannot_be_written_are_taken_back_and_refused(harness: Harness) -> None:
    create(harness)
    os.mkdir(f"{harness.data_dir}/{FILE}.tmp")
    assert alter(harness, TOPIC, "retention.ms", "60000") == [ErrorCode.KAFKA_STORAGE_ERROR] * len(NAMES)
    assert all(not topic.config.overrides for topic in harness.core.topics)
    os.rmdir(f"{harness.data_dir}/{FILE}.tmp")


def test_partitions_are_reassigned_and_led_with_one_write_each(several: Harness, writes: list[str]) -> None:
    create_by_hand(several, "wide", by_hand=((1, 2),) * 20)
    writes.clear()
    places = [ReassignablePartition(partition_index=index, replicas=[3, 1]) for index in range(20)]
    requested_topic = ReassignableTopic(name="wide", partitions=places)
    (answer,) = several.ask(AlterPartitionReassignmentsRequest(topics=[requested_topic]), 0).responses
    assert {each.error_code for each in answer.partitions} == {0}
    assert writes == [FILE]
    assert several.ask(ElectLeadersRequest(election_type=0, topic_partitions=None), 2).error_code == 0
    assert writes == [FILE] * 2
    several.restart()
    topic = several.core.topics.get("wide")
    assert topic is not None
    assert {(each.replicas, each.leader and each.leader.id) for each in topic.partitions} == {((3, 1), 3)}


def test_only_the_topics_that_have_changed_are_encoded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    create(harness)
    encoded: list[str] = []

    def line_of(name: str, entry: dict[str, Any]) -> bytes:
        encoded.append(name)
        return topics_file_line(name, entry)

    monkeypatch.setattr(topics_module, "topics_file_line", line_of)
    harness.create("one", 2)
    topic = harness.core.topics.get("one")
    assert topic is not None
    harness.core.topics.configure(topic, TopicConfig(CONFIG, {"retention.ms": "1"}))
    assert encoded == ["one", "one"]


# Between two slices.


@pytest.fixture
def coming(harness: Harness) -> Iterator[Any]:
    """The creation of a topic "new" with 3 partitions, of which one has been looked for on the disk."""
    slices = harness.core.topics.creation([("new", 3, TopicConfig(CONFIG, {}))])
    for _ in range(4):  # one begins the topic with its first partition, two make the others
        next(slices)
    yield slices
    slices.close()


def names_on_disk(harness: Harness) -> set[str]:
    return {name for name in os.listdir(harness.data_dir) if name.startswith("new")}


def noted(harness: Harness) -> set[str]:
    return set(json.loads(Path(harness.data_dir, FILE).read_text())["topics"])


def test_a_topic_that_is_being_made_is_not_there_yet_but_its_name_is_taken(harness: Harness, coming: Any) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    assert harness.ask(request, 9).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    again = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
    assert harness.ask(again, 7).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert [topic.name for topic in harness.ask(MetadataRequest(topics=None), 9).topics] == ["t"]
    assert (names_on_disk(harness), noted(harness)) == (set(), {"t", "new"})
    assert len(list(coming)) == 2
    assert harness.ask(request, 9).topics[0].error_code == 0
    harness.produce(batch(b"a record"), "new", 1)
    assert names_on_disk(harness) == {"new-1"}


def test_a_topic_that_has_not_begun_has_its_name_and_is_not_in_the_file(harness: Harness) -> None:
    slices = harness.core.topics.creation([(name, 1, TopicConfig(CONFIG, {})) for name in ("new", "newer")])
    next(slices)
    harness.create("other")
    assert noted(harness) == {"t", "other", "new"}
    assert harness.core.topics.is_coming("newer")
    slices.close()
    assert noted(harness) == {"t", "other"}
    harness.create("newer")


def test_a_creation_that_is_given_up_leaves_nothing(harness: Harness, coming: Any) -> None:
    coming.close()
    assert (names_on_disk(harness), noted(harness)) == (set(), {"t"})
    harness.create("new")


def test_a_directory_that_cannot_be_made_takes_all_back(harness: Harness, coming: Any) -> None:
    Path(harness.data_dir, "new-2").write_text("in the way")
    with pytest.raises(FileExistsError):
        list(coming)
    assert (names_on_disk(harness), noted(harness)) == ({"new-2"}, {"t"})


def test_a_step_makes_one_partition_and_clients_see_them_when_all_are_there(harness: Harness) -> None:
    topic = harness.core.topics.get("t")
    assert topic is not None
    seen = [(len(topic.coming), len(topic.partitions)) for _ in harness.core.topics.growth([None, (topic, 4, None)])]
    assert seen == [(0, 1), *((coming, 1) for coming in (1, 2, 3)), *[(3, 1)] * 4]  # none, made, looked for
    assert (len(topic.coming), len(topic.partitions)) == (0, 4)


def test_partitions_that_are_coming_heed_nodes_that_stop(several: Harness) -> None:
    topic, cluster = several.core.topics.get("t"), several.core.cluster
    assert topic is not None
    steps = several.core.topics.growth([(topic, 9, [(2, 3)] * 8)])
    for _ in range(8):
        next(steps)
    cluster.stop_node(2)
    list(steps)
    assert {(each.leader and each.leader.id, each.isr) for each in topic.partitions[1:]} == {(3, (3,))}


def test_a_topic_that_is_deleted_while_it_grows_is_gone(harness: Harness) -> None:
    topic = harness.core.topics.get("t")
    assert topic is not None
    slices = harness.core.topics.growth([(topic, 4, None)])
    next(slices)
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=9, assignments=None)], timeout_ms=20_000
    )
    (refused,) = harness.ask(request, 2).results
    assert refused.error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert [len(each.partitions) for each in harness.ask(MetadataRequest(topics=None), 9).topics] == [1]
    (outcome,) = harness.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=20_000), 3).responses
    assert outcome.error_code == 0
    assert list(slices) == [None]  # and no directory is looked for
    assert not [name for name in os.listdir(harness.data_dir) if name.startswith("t-")]
    harness.restart()
    assert len(harness.core.topics) == 0


# A full disk.


class Full:
    """No room for the topics file as long as a directory of this name is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, until_gone: Callable[[], bool]) -> None:
        real = TopicsFile.write

        def write(file: TopicsFile, *arguments: Any, **named: Any) -> None:
            if not until_gone():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
            real(file, *arguments, **named)

        monkeypatch.setattr(TopicsFile, "write", write)


def delete(harness: Harness, name: str) -> int:
    (outcome,) = harness.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), 3).responses
    code: int = outcome.error_code
    return code


def test_a_full_disk_is_made_room_on_by_what_is_deleted(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.create("large", 2)

    def has_room() -> bool:
        found = [name for name in os.listdir(harness.data_dir) if name.startswith(("large", "deleted"))]
        return not any(os.listdir(f"{harness.data_dir}/{name}") for name in found)

    with monkeypatch.context() as patched:
        Full(patched, has_room)
        assert delete(harness, "large") == 0
    assert noted(harness) == {"t"}
    assert [name for name in os.listdir(harness.data_dir) if "large" in name or "delete" in name] == []


def test_a_deletion_that_cannot_be_written_at_all_counts_after_a_restart(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("large", 2)
    with monkeypatch.context() as patched:
        Full(patched, lambda: False)
        assert delete(harness, "large") == 0
        assert delete(harness, "large") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert noted(harness) == {"t", "large"}
        harness.crash()
        assert [topic.name for topic in harness.core.topics] == ["t"]
    harness.crash()
    assert [topic.name for topic in harness.core.topics] == ["t"]
    assert noted(harness) == {"t"}
    assert [name for name in os.listdir(harness.data_dir) if "delete" in name] == []


def test_a_deletion_that_could_not_be_written_is_with_the_next_change(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("large")
    with monkeypatch.context() as patched:
        Full(patched, lambda: False)
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
    assert noted(harness) == {"t"}
    assert delete(harness, "t") == 0


def test_the_file_of_topics_without_any_is_json(tmp_path: Path) -> None:
    class Nobody:
        def forget(self, names: object) -> None:
            """Nothing is known."""

    topics = Topics(str(tmp_path), CONFIG, Nobody())  # type: ignore[arg-type]  # nothing else is asked of it
    topics.save()
    assert json.loads((tmp_path / FILE).read_text()) == {"version": 1, "next_producer_id": 0, "topics": {}}
