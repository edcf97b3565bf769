"""Metadata is on disk before it is acknowledged, and a file torn by a crash of the machine is recovered."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker.cluster import temporary
from minibroker.cluster.durability import Durability
from minibroker.cluster.metadata_file import MetadataFile
from minibroker_protocol.messages.acls import AclCreation, CreateAclsRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.transactions import InitProducerIdRequest
from minibroker_storage.data_directory.names import TopicsFileError
from tests.broker.cluster.sick_disk import SickDisk
from tests.broker.harness import Harness, Pending, batch, create_request

STORAGE_ERROR, TOPIC_ALREADY_EXISTS = 56, 36
TOPICS, CLUSTER = "minibroker-topics.json", "minibroker-cluster.json"
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files and directories that were forced to disk."""
    real, names = os.fsync, list[str]()

    def fsync(fd: int) -> None:
        names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


class Threads:
    """A thread for fsyncs that runs when a test lets it."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.due: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._harness = harness
        monkeypatch.setattr(harness.core.durability, "_background", lambda work, then: self.due.append((work, then)))

    def run(self) -> None:
        """Run one round."""
        work, then = self.due.pop(0)
        work()
        then()
        self._harness.run_soon()


@pytest.fixture
def threads(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Threads:
    return Threads(harness, monkeypatch)


def test_topics_acls_and_producer_ids_are_forced_to_disk_with_their_directory(
    tmp_path: Path, synced: list[str]
) -> None:
    harness = Harness(str(tmp_path / "data"), ACLS)
    synced.clear()
    harness.ask(create_request("a"), 7)
    assert synced == [TOPICS, "data"]
    rule = AclCreation(
        resource_type=2, resource_name="a", resource_pattern_type=3, principal="User:m", host="*", operation=2,
        permission_type=2,
    )  # fmt: skip
    synced.clear()
    harness.ask(CreateAclsRequest(creations=[rule]), 3)
    assert synced == [f"{CLUSTER}.tmp", "data"]  # The first generation is forced to disk immediately.
    synced.clear()
    harness.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    assert synced == [f"{TOPICS}.tmp", "data"]
    synced.clear()
    harness.ask(MetadataRequest(topics=[MetadataRequestTopic(name="b")], allow_auto_topic_creation=True), 9)
    assert synced == [TOPICS, "data"]
    harness.close()


def test_a_deletion_is_on_disk_before_the_directory_that_marks_it_is_removed(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    harness = Harness(str(path))
    harness.create("a")
    topic = harness.core.topics.get("a")
    assert topic is not None
    harness.close()
    (path / f"deleted-0.{topic.id.hex()}-unnoted-delete").mkdir()
    synced.clear()
    removed: list[list[str]] = []
    monkeypatch.setattr("minibroker.cluster.topics.purge_and_log_errors", lambda _: removed.append(synced.copy()))
    assert Harness(str(path)).core.topics.get("a") is None
    assert removed == [[f"{TOPICS}.tmp", "data"]]


def test_nothing_is_forced_to_disk_for_a_temporary_directory(synced: list[str]) -> None:
    directory = temporary.make()
    try:
        harness = Harness(directory)
        harness.ask(create_request("a"), 7)
        harness.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
        harness.services.close(keep=False)
        assert synced == []
        assert not [name for name in os.listdir(directory) if name.endswith(".bak")]
    finally:
        temporary.remove(directory)


def test_an_answer_waits_for_the_disk_and_others_share_the_next_round(harness: Harness, threads: Threads) -> None:
    first = harness.send(create_request("a"), 7)
    assert isinstance(first, Pending)
    assert not first.is_answered
    second, third = harness.send(create_request("b"), 7), harness.send(create_request("c"), 7)
    assert harness.ask(MetadataRequest(topics=None), 9).topics  # Reads do not wait.
    threads.run()
    assert (first.is_answered, second.is_answered, third.is_answered) == (True, False, False)
    threads.run()
    assert (second.is_answered, third.is_answered) == (True, True)
    assert third.response.topics[0].error_code == 0
    assert threads.due == []


def test_the_answer_to_a_client_that_has_gone_is_forgotten(harness: Harness, threads: Threads) -> None:
    pending = harness.send(create_request("a"), 7)
    pending.cancel()
    threads.run()
    assert not pending.is_answered


def test_a_change_whose_fsync_fails_is_refused_and_the_next_one_is_on_disk_with_it(
    harness: Harness, threads: Threads, sick: SickDisk, caplog: pytest.LogCaptureFixture
) -> None:
    path = os.path.join(harness.data_dir, TOPICS)
    first, second = harness.send(create_request("a"), 7), harness.send(create_request("b"), 7)
    sick.is_sick = True
    threads.run()
    assert [topic.error_code for topic in first.response.topics] == [STORAGE_ERROR]
    assert len(sick.lost) == 1
    threads.run()  # The second round writes a new file, which does not reach the disk either.
    assert len(sick.lost) == 2
    assert not sick.holds(path)
    assert [topic.error_code for topic in second.response.topics] == [STORAGE_ERROR]
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith(f"{path} cannot be forced to disk: [Errno 5] Input/output error")
    sick.is_sick = False
    third = harness.send(create_request("a"), 7)  # It changes nothing, but must not report a topic that is not on disk.
    assert not third.is_answered
    threads.run()
    assert [topic.error_code for topic in third.response.topics] == [TOPIC_ALREADY_EXISTS]
    assert sick.holds(path)
    assert not harness.core.durability.is_behind
    assert "All metadata is on disk again" in caplog.text
    assert set(json.loads(Path(path).read_text())["topics"]) == {"t", "a", "b"}


def test_a_stop_writes_a_new_file_where_an_fsync_has_failed(harness: Harness, sick: SickDisk) -> None:
    sick.is_sick = True
    pending = harness.send(create_request("a"), 7)
    assert pending.response.topics[0].error_code == STORAGE_ERROR
    sick.is_sick = False
    harness.close()
    assert sick.holds(os.path.join(harness.data_dir, TOPICS))


def test_a_topic_that_metadata_has_made_is_refused_beside_the_brokers(harness: Harness, sick: SickDisk) -> None:
    sick.is_sick = True
    topics = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new")]
    pending = harness.send(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
    results = {topic.name: (topic.error_code, len(topic.partitions)) for topic in pending.response.topics}
    assert results == {"t": (0, 1), "new": (STORAGE_ERROR, 0)}
    assert len(pending.response.brokers) == 1


# After a crash of the machine.


@pytest.mark.parametrize(
    "content", [b"", b'{"version": 1, "next_producer_id": 1000, "topics": {\n"t": {"id', b"\0" * 100]
)
def test_a_torn_topics_file_is_replaced_by_the_generation_before(
    harness: Harness, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    harness.create("kept", 3, retention_ms="60000")
    first = harness.core.producer_ids.next()
    harness.create("new")
    harness.produce(batch(b"a record"), "new")
    harness.crash()
    before = Path(harness.data_dir, TOPICS)
    before.write_bytes(content)
    harness.crash()
    assert f"going on with the generation before, from {before}.bak" in caplog.text
    kept_topic = harness.topic("kept")
    assert (len(kept_topic.partitions), dict(kept_topic.config.overrides)) == (3, {"retention.ms": "60000"})
    new = harness.core.topics.get("new")  # Its directory exists, since it has a record.
    assert new is not None
    assert dict(new.config.overrides) == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert harness.core.producer_ids.next() >= first + 2000
    assert set(json.loads(before.read_text())["topics"]) == {"t", "kept", "new"}


def test_a_torn_cluster_file_is_replaced_by_the_generation_before(harness: Harness) -> None:
    harness.core.metadata.write("one", 1)
    harness.run_soon()
    harness.core.metadata.write("two", 2)
    harness.crash()
    path = Path(harness.data_dir, CLUSTER)
    assert path.stat().st_mode & 0o777 == Path(f"{path}.bak").stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"")
    harness.crash()
    assert (harness.core.metadata.read("one"), harness.core.metadata.read("two")) == (1, None)


def test_a_mistake_of_somebody_who_edits_the_file_is_no_torn_file(harness: Harness) -> None:
    harness.create("a")
    harness.close()
    path = Path(harness.data_dir, TOPICS)
    path.write_text(path.read_text().replace('"partitions": 1', '"partitions": one'))
    with pytest.raises(TopicsFileError, match="is not JSON"):
        harness.start()
    path.write_text('{"version": 1, "next_producer_id": 0, "topics": {}}')
    harness.start()


# The file by itself.


@pytest.fixture
def file(tmp_path: Path) -> MetadataFile:
    return MetadataFile(str(tmp_path / "f"), is_durable=True)


def backup(file: MetadataFile) -> str | None:
    path = Path(f"{file.path}.bak")
    return path.read_text() if path.exists() else None


def test_the_backup_is_the_last_generation_that_is_on_disk(file: MetadataFile) -> None:
    file.write(b"{1}")
    assert (backup(file), file.is_behind) == (None, False)
    file.write(b"{2}")
    assert (backup(file), file.is_behind) == ("{1}", True)
    file.write(b"{3}")
    assert backup(file) == "{1}"  # Generation 2 never was on disk.
    file.sync()
    assert not file.is_behind
    file.write(b"{4}")
    assert backup(file) == "{3}"


def test_where_there_are_no_links_every_generation_goes_to_disk_at_once(
    file: MetadataFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), target)

    monkeypatch.setattr(os, "link", link)
    for content in (b"{1}", b"{2}", b"{3}"):
        file.write(content)
        assert not file.is_behind


def read_torn(file: MetadataFile) -> MetadataFile:
    """Write two generations, tear the second one, and return a new object that has read the first one."""
    file.write(b'{"a": 1}')
    file.write(b'{"a": 2}')
    Path(file.path).write_bytes(b"")
    again = MetadataFile(file.path, is_durable=True)
    assert again.read(json.loads) == {"a": 1}
    return again


def test_the_backup_stays_until_a_torn_file_is_replaced(file: MetadataFile) -> None:
    again = read_torn(file)
    again.write(b'{"a": 3}')
    assert backup(again) == '{"a": 1}'
    again.sync()
    again.write(b'{"a": 4}')
    assert backup(again) == '{"a": 3}'


def test_a_file_that_is_cut_behind_an_inner_object_is_torn(file: MetadataFile) -> None:
    file.write(b'{"a": {"b": 1}}')
    file.write(b'{"a": {"b": 2}}')
    Path(file.path).write_bytes(b'{"a": {"b": 2}')
    assert MetadataFile(file.path, is_durable=True).read(json.loads) == {"a": {"b": 1}}


def test_after_a_torn_file_one_that_was_forced_to_disk_at_once_is_the_next_backup(file: MetadataFile) -> None:
    again = read_torn(file)
    again.write(b'{"a": 3}', sync=True)
    again.write(b'{"a": 4}')
    assert backup(again) == '{"a": 3}'


def test_an_empty_directory_that_a_crash_has_left_does_not_take_a_topics_name(harness: Harness) -> None:
    Path(harness.data_dir, "a-0").mkdir()
    harness.crash()
    harness.create("a")
    Path(harness.data_dir, "b-0").mkdir()
    Path(harness.data_dir, "b-0", "notes").touch()
    (refused,) = harness.ask(create_request("b"), 7).topics
    assert refused.error_code == 56
    assert os.listdir(Path(harness.data_dir, "b-0")) == ["notes"]


def test_without_a_file_nothing_comes_from_the_backup(file: MetadataFile) -> None:
    file.write(b"{}")
    file.write(b"{}")
    os.unlink(file.path)
    assert MetadataFile(file.path).read(json.loads) is None


def test_an_inode_whose_fsync_has_failed_is_replaced_before_the_next_fsync(file: MetadataFile, sick: SickDisk) -> None:
    file.write(b"{1}")
    file.write(b"{2}")
    sick.is_sick = True
    for _ in range(2):
        with pytest.raises(OSError, match="Errno 5"):
            file.sync()
    assert file.is_behind
    sick.is_sick = False
    file.renew()
    file.sync()
    assert (sick.holds(file.path), Path(file.path).read_text(), backup(file)) == (True, "{2}", "{1}")
    file.write(b"{3}")
    assert backup(file) == "{2}"


def test_a_generation_written_after_a_failed_fsync_needs_no_other_file(file: MetadataFile, sick: SickDisk) -> None:
    file.write(b"{1}")
    file.write(b"{2}")
    sick.is_sick = True
    with pytest.raises(OSError, match="Errno 5"):
        file.sync()
    sick.is_sick = False
    file.write(b"{3}")
    inode = os.stat(file.path).st_ino
    file.renew()
    file.sync()
    assert (os.stat(file.path).st_ino, sick.holds(file.path), file.is_behind) == (inode, True, False)


def test_a_first_generation_whose_name_is_not_on_disk_is_behind(file: MetadataFile, sick: SickDisk) -> None:
    sick.is_sick = True
    sick.spare_files()
    file.write(b"{1}")
    assert file.is_behind
    sick.is_sick = False
    file.renew()
    file.sync()
    assert (Path(file.path).read_text(), file.is_behind) == ("{1}", False)


def test_a_write_that_has_to_be_on_disk_at_once_fails_with_its_name(file: MetadataFile, sick: SickDisk) -> None:
    file.write(b"{1}")
    sick.is_sick = True
    sick.spare_files()
    with pytest.raises(OSError, match="Errno 5"):
        file.write(b"{2}", sync=True)
    assert file.is_behind


def test_a_file_of_an_earlier_run_whose_fsync_fails_is_no_backup(file: MetadataFile, sick: SickDisk) -> None:
    file.write(b"{1}")
    again = MetadataFile(file.path, is_durable=True)
    sick.is_sick = True
    with pytest.raises(OSError, match="Errno 5"):
        again.write(b"{2}")
    sick.is_sick = False
    again.write(b"{2}")
    assert (backup(again), again.is_behind) == (None, False)


def test_what_is_not_held_is_forced_to_disk_soon(tmp_path: Path) -> None:
    soon: list[Callable[[], None]] = []

    def background(work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        work()
        assert then is not None
        then()

    durability = Durability(soon.append, background, is_needed=True)
    file = durability.file(str(tmp_path / "f"))
    file.write(b"{1}")
    file.write(b"{2}")
    states = [durability.is_behind]
    for call in soon:
        call()
    assert [*states, durability.is_behind] == [True, False]
