"""The topics of a data directory: what is stored, adopted and rejected."""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.partition import Partition
from minibroker.cluster.topics import Topic, Topics, topic_name_error
from minibroker.config import BrokerConfig, TopicConfig
from minibroker_protocol.primitives import new_uuid, uuid_text
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.data_directory.names import TopicsFileError
from minibroker_storage.files import FilePool
from minibroker_storage.log import Log
from tests.broker.harness import Harness, batch, values_in

FILE = "minibroker-topics.json"
CONFIG = BrokerConfig.from_properties({})


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


class FakeLogManager:
    """Opens logs, and records the other calls."""

    def __init__(self) -> None:
        self.let_go_of: list[str] = []
        self.forgotten: list[str] = []
        self.reconfigured: list[LogConfig] = []

    def open_log(self, partition: Partition) -> Log:
        if not partition.has_files:
            partition.make_directory()
        return Log.open(
            partition.directory,
            config=partition.topic.log_config,
            files=FilePool(16),
            last_stop=LastStop.CLEAN,
            recovery_point=0,
            log_start_offset=0,
            now_ms=0,
        )

    def reconfigure(self, log: Log, config: LogConfig) -> None:
        self.reconfigured.append(config)

    def forget_partition(self, partition: Partition) -> None:
        self.let_go_of.append(os.path.basename(partition.directory))

    def forget(self, names: Iterable[str]) -> None:
        self.forgotten += names


class KilledError(BaseException):
    """Stands for the end of a killed process."""


def kill(*_: object, **__: object) -> None:
    raise KilledError


def opened(data_dir: Path, log_manager: FakeLogManager | None = None) -> Topics:
    return Topics(str(data_dir), CONFIG, log_manager or FakeLogManager())


def create(topics: Topics, name: str, partitions: int = 1, **overrides: str) -> Topic:
    config = TopicConfig(CONFIG, {key.replace("_", "."): value for key, value in overrides.items()})
    (topic,) = topics.create([(name, partitions, config)])
    return topic


def contents(topics: Topics) -> dict[str, tuple[bytes, int, dict[str, str]]]:
    return {topic.name: (topic.id, len(topic.partitions), topic.config.overrides) for topic in topics}


def test_a_new_data_directory_is_made_and_described(data_dir: Path) -> None:
    topics = opened(data_dir)
    assert (len(topics), list(topics)) == (0, [])
    assert json.loads((data_dir / FILE).read_text()) == {"version": 1, "next_producer_id": 0, "topics": {}}


def test_topics_their_ids_partitions_and_configuration_outlive_a_restart(data_dir: Path) -> None:
    topics = opened(data_dir)
    create(topics, "a", 3, retention_ms="60000", cleanup_policy="compact,delete")
    create(topics, "b")
    again = opened(data_dir)
    assert contents(again) == contents(topics)
    assert contents(again)["a"][1:] == (3, {"retention.ms": "60000", "cleanup.policy": "compact,delete"})


def test_the_file_is_what_the_documentation_shows(data_dir: Path) -> None:
    topics = opened(data_dir)
    topic = create(topics, "orders", 4, retention_ms="60000")
    assert json.loads((data_dir / FILE).read_text())["topics"] == {
        "orders": {"id": uuid_text(topic.id), "partitions": 4, "configs": {"retention.ms": "60000"}}
    }


def test_a_topic_is_found_by_name_and_by_id(data_dir: Path) -> None:
    topics = opened(data_dir)
    topic = create(topics, "a")
    assert topics.with_id(topic.id) is topic
    assert topics.get("A") is None
    assert topics.with_id(new_uuid()) is None
    assert topic.partition(0) is topic.partitions[0]
    assert topic.partition(1) is topic.partition(-1) is None


def test_logs_are_opened_when_they_are_first_used(data_dir: Path) -> None:
    create(opened(data_dir), "a", 2)
    topic = opened(data_dir).get("a")
    assert topic is not None
    assert [partition.opened_log for partition in topic.partitions] == [None, None]
    log = topic.partitions[1].log
    assert topic.partitions[0].opened_log is None
    assert topic.partitions[1].opened_log is topic.partitions[1].log is log


def test_the_keeper_of_the_logs_is_told_of_deletions_and_of_new_names(data_dir: Path) -> None:
    log_manager = FakeLogManager()
    topics = opened(data_dir, log_manager)
    topic = create(topics, "a", 2)
    create(topics, "b")
    topics.delete(topic)
    assert log_manager.forgotten == ["a", "b"]
    assert log_manager.let_go_of == ["a-0", "a-1"]


def test_nothing_is_made_when_an_older_topic_of_the_name_cannot_be_forgotten(data_dir: Path) -> None:
    class Failing(FakeLogManager):
        def forget(self, names: Iterable[str]) -> None:
            raise OSError("a full disk")

    topics = opened(data_dir, Failing())
    with pytest.raises(OSError, match="a full disk"):
        create(topics, "a")
    assert os.listdir(data_dir) == [FILE]
    assert len(topics) == 0


def test_a_new_configuration_reaches_the_logs_that_are_open(data_dir: Path) -> None:
    log_manager = FakeLogManager()
    topics = opened(data_dir, log_manager)
    topic = create(topics, "a", 3)
    assert topic.partitions[1].log.config.retention_ms == 7 * 24 * 3_600_000
    topic.configure(TopicConfig(CONFIG, {"retention.ms": "60000"}))
    assert [config.retention_ms for config in log_manager.reconfigured] == [60_000]
    assert topic.partitions[0].log.config.retention_ms == 60_000


def test_the_configuration_of_a_topic_is_that_of_its_logs(data_dir: Path) -> None:
    topics = opened(data_dir)
    plain = create(topics, "plain")
    assert plain.log_config == LogConfig()
    assert not plain.is_compacted
    keys = (
        "segment_bytes segment_ms segment_jitter_ms index_interval_bytes segment_index_bytes retention_ms "
        "retention_bytes delete_retention_ms min_compaction_lag_ms max_compaction_lag_ms flush_messages flush_ms "
        "max_message_bytes"
    )
    numbers = {key: number for number, key in enumerate(keys.split(), 1000)}
    texts = {key: str(number) for key, number in numbers.items()}
    special = create(topics, "special", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.25", **texts)
    assert special.is_compacted
    ours: dict[str, Any] = {"compact": True, "delete": False, "min_cleanable_dirty_ratio": 0.25, **numbers}
    assert special.log_config == LogConfig(**ours)


# Directories missing from the topics file, such as those of an Apache Kafka.


def foreign(harness: Harness, name: str, partitions: int = 1) -> bytes:
    """Create partition directories with data and ids without a topics file, and return the topic's id."""
    harness.create(name, partitions)
    for partition in range(partitions):
        harness.produce(batch(b"%d" % partition), name, partition)
    topic = harness.topic(name)
    harness.services.close()
    (Path(harness.data_dir) / FILE).unlink()
    harness.start()
    return topic.id


def test_partition_directories_that_the_file_does_not_know_are_adopted(harness: Harness) -> None:
    topic_id = foreign(harness, "from-kafka", 3)
    topic = harness.topic("from-kafka")
    assert (topic.id, len(topic.partitions)) == (topic_id, 3)
    assert values_in(harness.fetch_one(0, "from-kafka", 2).records) == [(0, b"2")]
    assert harness.produce(batch(b"more"), "from-kafka", 2).base_offset == 1
    harness.restart()
    assert harness.topic("from-kafka").id == topic_id


def test_a_directory_without_a_topic_id_gets_a_new_one(harness: Harness) -> None:
    harness.create("old")
    harness.produce(batch(b"a"), "old")
    harness.services.close()
    data_dir = Path(harness.data_dir)
    (data_dir / FILE).unlink()
    (data_dir / "old-0" / "partition.metadata").unlink()
    (data_dir / "t-0" / "partition.metadata").write_text("damaged")
    harness.start()
    assert {topic.name for topic in harness.core.topics} == {"old", "t"}
    assert len({topic.id for topic in harness.core.topics}) == 2


def test_what_is_no_partition_directory_is_left_alone(data_dir: Path) -> None:
    data_dir.mkdir()
    for name in ("__cluster_metadata-0", "lost+found", "no-number", "a b-0", "..-0", "-0", "x-1.tmp"):
        (data_dir / name).mkdir()
    for name in ("notes-1", "meta.properties", ".lock", "recovery-point-offset-checkpoint"):
        (data_dir / name).write_text("a file")
    before = sorted(os.listdir(data_dir))
    assert contents(opened(data_dir)) == {}
    assert sorted(os.listdir(data_dir)) == sorted([*before, FILE])


def test_a_missing_partition_of_an_adopted_topic_is_empty(harness: Harness) -> None:
    foreign(harness, "a", 3)
    harness.services.close()
    (Path(harness.data_dir) / FILE).unlink()
    shutil.rmtree(f"{harness.data_dir}/a-1")
    harness.start()
    assert [partition.log.log_end_offset for partition in harness.topic("a").partitions] == [1, 0, 1]


def test_what_a_deletion_left_behind_is_removed_at_the_start(data_dir: Path) -> None:
    topics = opened(data_dir)
    topic = create(topics, "a", 2)
    leftovers = topics.delete(topic)
    assert all(map(os.path.isdir, leftovers))  # The process seems to have died before removing them.
    assert contents(opened(data_dir)) == {}
    assert os.listdir(data_dir) == [FILE]


# An unreadable file stops the start with a message that names it.


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "is not a topics file of version 1"),
        ("null", "is not a topics file of version 1"),
        ('{"version": 2}', "is not a topics file of version 1"),
        ('{"version": 1}', "is damaged: KeyError"),
        ('{"version": 1, "next_producer_id": "y", "topics": {}}', "is damaged: ValueError"),
        ('{"version": 1, "next_producer_id": 0, "topics": []}', "is damaged: AttributeError"),
        ('{"version": 1, "next_producer_id": 0, "topics": {"a": {}}}', "is damaged: KeyError"),
    ],
)
def test_a_damaged_file_is_named(data_dir: Path, content: str, word: str) -> None:
    data_dir.mkdir()
    (data_dir / FILE).write_text(content)
    with pytest.raises(TopicsFileError) as caught:
        opened(data_dir)
    assert str(data_dir / FILE) in str(caught.value)
    assert word in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"id": "short"}, {"id": "!" * 22}, {"partitions": "many"}, {"configs": {"no.such.key": "1"}}, {"configs": 5}],
)
def test_a_damaged_topic_is_named(data_dir: Path, change: dict[str, Any]) -> None:
    create(opened(data_dir), "a")
    state = json.loads((data_dir / FILE).read_text())
    state["topics"]["a"].update(change)
    (data_dir / FILE).write_text(json.dumps(state))
    with pytest.raises(TopicsFileError, match="is damaged"):
        opened(data_dir)


def test_the_old_file_stays_when_a_new_one_cannot_be_written(data_dir: Path) -> None:
    topics = opened(data_dir)
    create(topics, "a")
    before = (data_dir / FILE).read_bytes()
    (data_dir / f"{FILE}.tmp").mkdir()
    with pytest.raises(OSError, match=FILE):
        create(topics, "b")
    (data_dir / f"{FILE}.tmp").rmdir()
    assert (data_dir / FILE).read_bytes() == before
    assert list(contents(topics)) == list(contents(opened(data_dir))) == ["a"]


# Names.


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * 249, "__consumer_offsets", "-", "0"])
def test_ordinary_names_are_taken(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "a\0", "x" * 250])
def test_impossible_names_are_refused(name: str) -> None:
    assert (topic_name_error(name) or "").startswith("Topic name is invalid: ")


@pytest.mark.parametrize(
    ("known", "name", "collides"),
    [("a.b", "a_b", True), ("a_b", "a.b", True), ("a_b", "a_b", False), ("a.b", "a-b", False), ("ab", "a.b", False)],
)
def test_names_collide_when_only_dots_and_underscores_differ(
    data_dir: Path, known: str, name: str, *, collides: bool
) -> None:
    topics = opened(data_dir)
    create(topics, known)
    assert topics.find_collision(name) == (known if collides else None)


def test_the_names_are_one_object_until_a_topic_comes_or_goes(data_dir: Path) -> None:
    topics = opened(data_dir)
    create(topics, "a")
    names = topics.names
    assert names == {"a"}
    assert topics.names is names
    (b,) = topics.create([("b", 1, TopicConfig(CONFIG, {}))])
    assert names == {"a"}
    assert topics.names == {"a", "b"}
    topics.delete(b)
    assert topics.names == {"a"}


@pytest.mark.parametrize(
    ("step", "partitions"), [("topics.Topics.save", None), ("topics.Topics._add", 3)], ids=["before", "after"]
)
def test_a_kill_while_a_topic_is_made_leaves_it_whole_or_not_at_all(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, step: str, partitions: int | None
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(f"minibroker.cluster.{step}", kill)
        with pytest.raises(KilledError):
            harness.create("new", 3, cleanup_policy="compact")
    harness.crash()
    topic = harness.core.topics.get("new")
    assert (None if topic is None else len(topic.partitions)) == partitions
    assert topic is None or topic.config.overrides == {"cleanup.policy": "compact"}


def test_a_kill_while_a_topic_is_deleted_does_not_bring_it_back_without_its_configuration(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("old", 2, cleanup_policy="compact")
    with monkeypatch.context() as patched:
        patched.setattr(Topics, "save", kill)
        with pytest.raises(KilledError):
            harness.delete("old")
    harness.crash()
    # The topic exists, because the deletion was not acknowledged.
    assert harness.topic("old").config.overrides == {"cleanup.policy": "compact"}
    assert harness.fetch_one(0, "old").high_watermark == 0


def test_nothing_is_deleted_from_directories_whose_configuration_is_not_known(tmp_path: Path) -> None:
    harness = Harness(str(tmp_path / "data"))
    harness.create("old", 1, retention_ms="-1", segment_bytes="100")
    for number in range(5):
        harness.produce(batch(b"%d" % number, timestamp=1_000), "old")
    harness.close()
    os.unlink(tmp_path / "data" / "minibroker-topics.json")
    harness = Harness(str(tmp_path / "data"))
    assert harness.core.logs.apply_retention() == 0
    assert len(values_in(harness.fetch_one(0, "old", partition_max_bytes=1 << 20).records)) >= 1
    assert harness.fetch_one(0, "old").log_start_offset == 0
    assert harness.topic("old").config.overrides == {"retention.ms": "-1", "retention.bytes": "-1"}
    harness.close()


def test_a_topic_whose_directories_are_missing_can_be_deleted(harness: Harness) -> None:
    harness.create("gone", 3)
    harness.restart()
    harness.produce(batch(b"a"), "gone", 1)
    shutil.rmtree(os.path.join(harness.data_dir, "gone-1"))
    shutil.rmtree(os.path.join(harness.data_dir, "gone-2"))
    harness.delete("gone")
    assert harness.core.topics.get("gone") is None
    harness.restart()
    assert harness.core.topics.get("gone") is None
