"""Snapshots and restores: refused ones change nothing, and ids and epochs never go back."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.cluster.data_dir import MetaPropertiesError
from minibroker.cluster.errors import ConflictError, NotFoundError, OperationError
from minibroker.operations.reset import reset
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_storage.data_directory.lock import DirectoryLock
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint
from minibroker_storage.data_directory.staged_write import UNFINISHED
from tests.broker.coordinators.transactions.producer import Producer, init_producer_id
from tests.broker.harness import Harness, batch, bytes_in, restore_snapshot, take_snapshot, values_in
from tests.torture.steps import CHANGING

MARK = "minibroker-snapshot.json"


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """A broker with a record, and a snapshot of it in `snapshot`."""
    harness = Harness(str(tmp_path / "data"))
    harness.create("t")
    harness.produce(batch(b"first"))
    take_snapshot(harness.services, tmp_path / "snapshot")
    harness.produce(batch(b"second"))
    return harness


def end(harness: Harness, topic: str = "t") -> int:
    return harness.fetch_one(0, topic).high_watermark


def records(harness: Harness, topic: str) -> list[tuple[int, bytes | None]]:
    """Return all records of a topic with their offsets."""
    values: dict[int, bytes | None] = {}
    log_end = end(harness, topic)
    offset = 0
    while offset < log_end:
        values |= values_in(bytes_in(harness.fetch_one(offset, topic)))
        offset = max(values) + 1
    return list(values.items())


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def link(data: Path, to: str = ".") -> Path:
    path = data.parent / "link"
    path.symlink_to(data / to)
    return path


@pytest.mark.parametrize(
    "source",
    [
        lambda data: data,
        lambda data: data / "..",
        link,
        lambda data: data / "t-0",
        lambda data: link(data) / "t-0",
        lambda data: link(data, ".."),
    ],
)
def test_a_restore_of_the_brokers_own_directory_is_refused(
    harness: Harness, tmp_path: Path, source: Callable[[Path], Path]
) -> None:
    with pytest.raises(ConflictError, match="the broker's own directory"):
        restore_snapshot(harness.services, source(tmp_path / "data"))
    assert end(harness) == 2
    harness.crash()
    assert end(harness) == 2


def test_a_topic_is_restored_whose_deletion_is_not_over(harness: Harness, tmp_path: Path) -> None:
    topic = harness.services.core.topics.get("t")
    assert topic is not None
    harness.services.core.topics.rename_directories(topic)
    harness.services.core.topics.save()
    restore_snapshot(harness.services, tmp_path / "snapshot")
    assert end(harness) == 1
    harness.crash()
    assert end(harness) == 1


def damage_mark(snapshot: Path) -> None:
    (snapshot / MARK).write_text("{}")


def name_a_file_elsewhere(snapshot: Path) -> None:
    mark = json.loads((snapshot / MARK).read_text())
    mark["files"]["../../stranger"] = [1, 1]
    (snapshot / MARK).write_text(json.dumps(mark))


def cut_mark(snapshot: Path) -> None:
    (snapshot / MARK).write_text('{"version": 1, "files": null}')


def cut_log(snapshot: Path) -> None:
    os.truncate(snapshot / "t-0" / f"{0:020d}.log", 10)


def turn_a_bit(snapshot: Path) -> None:
    path = snapshot / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)


def remove_log(snapshot: Path) -> None:
    (snapshot / "t-0" / f"{0:020d}.log").unlink()


def damage_topics(snapshot: Path) -> None:
    (snapshot / MARK).unlink()
    (snapshot / "minibroker-topics.json").write_text('{"version": 1, "topics": {"t": 3}}')


def name_a_topic_elsewhere(snapshot: Path) -> None:
    (snapshot / MARK).unlink()
    path = snapshot / "minibroker-topics.json"
    path.write_text(path.read_text().replace('"t": {', '"../t": {"seeding": "new", '))


def damage_cluster(snapshot: Path) -> None:
    (snapshot / MARK).unlink()
    (snapshot / "minibroker-cluster.json").write_text('{"version": 1, "sections": {"configs": 7}}')


def leave_unfinished(snapshot: Path) -> None:
    (snapshot / UNFINISHED).mkdir()


def empty(snapshot: Path) -> None:
    shutil.rmtree(snapshot)
    snapshot.mkdir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_mark, "minibroker-snapshot.json is damaged"),
        (name_a_file_elsewhere, "minibroker-snapshot.json is damaged"),
        (cut_mark, "snapshot is not whole: the snapshot was cut short"),
        (cut_log, "snapshot is damaged: t-0/0*.log is not as it was written"),
        (turn_a_bit, "snapshot is damaged: t-0/0*.log is not as it was written"),
        (remove_log, "snapshot is damaged: t-0/0*.log is missing"),
        (damage_topics, "snapshot is damaged: .*snapshot/minibroker-topics.json"),
        (name_a_topic_elsewhere, "snapshot is damaged: .*Topic name is invalid"),
        (damage_cluster, "snapshot is damaged: minibroker-cluster.json: the section configs"),
        (leave_unfinished, "has an unfinished write"),
        (empty, "is not a snapshot: it has no minibroker-topics.json and no meta.properties"),
        (shutil.rmtree, "is not a snapshot: there is no such directory"),
    ],
)
def test_a_damaged_snapshot_is_refused_and_changes_nothing(
    harness: Harness, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(tmp_path / "snapshot")
    before = files(tmp_path / "data")
    with pytest.raises(OperationError, match=message):
        restore_snapshot(harness.services, tmp_path / "snapshot")
    assert files(tmp_path / "data") == before
    assert end(harness) == 2


def test_the_directory_of_a_broker_that_runs_is_refused(harness: Harness, tmp_path: Path) -> None:
    second = Harness(str(tmp_path / "other"))
    with pytest.raises(ConflictError, match="is in use: stop its broker first"):
        restore_snapshot(harness.services, tmp_path / "other")
    second.create("o")
    second.produce(batch(b"of another"), "o")
    second.close()
    restore_snapshot(harness.services, tmp_path / "other")
    assert end(harness, "o") == 1
    lock = DirectoryLock(str(tmp_path / "other"))
    lock.release()


@pytest.mark.parametrize("missing", [[MARK], [MARK, "minibroker-topics.json"]], ids=["from 1.0.0", "from Kafka"])
def test_a_directory_without_a_mark_or_a_topics_file_is_restored(
    harness: Harness, tmp_path: Path, missing: list[str]
) -> None:
    for name in missing:
        (tmp_path / "snapshot" / name).unlink()
    restore_snapshot(harness.services, tmp_path / "snapshot")
    assert end(harness) == 1
    harness.crash()
    assert end(harness) == 1


def test_a_snapshot_that_a_broker_has_run_on_is_a_data_directory(harness: Harness, tmp_path: Path) -> None:
    second = Harness(str(tmp_path / "snapshot"))
    second.produce(batch(b"more"), "t")
    second.close()
    assert not (tmp_path / "snapshot" / MARK).exists()
    restore_snapshot(harness.services, tmp_path / "snapshot")
    assert end(harness) == 2


@pytest.mark.parametrize(
    "target", ["data/s", "data/t-0/s", "data", "link/s", "snapshot", "strange", "file", "dangling"]
)
def test_a_snapshot_into_a_directory_in_use_is_refused(harness: Harness, tmp_path: Path, target: str) -> None:
    link(tmp_path / "data")
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "notes").write_text("of somebody")
    (tmp_path / "file").write_text("of somebody")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = files(tmp_path)
    with pytest.raises(ConflictError, match=r"own directory|exists already"):
        take_snapshot(harness.services, tmp_path / target)
    assert files(tmp_path) == before


def test_a_snapshot_takes_the_place_of_one_that_was_cut_short(harness: Harness, tmp_path: Path) -> None:
    cut_mark(tmp_path / "snapshot")
    take_snapshot(harness.services, tmp_path / "snapshot")
    harness.produce(batch(b"third"))
    restore_snapshot(harness.services, tmp_path / "snapshot")
    assert end(harness) == 2


def test_a_snapshot_has_the_state_of_its_beginning_whatever_comes_while_it_is_copied(
    harness: Harness, tmp_path: Path
) -> None:
    for name in ("gone", "emptied", "rolled"):
        harness.create(name, segment_bytes="400", index_interval_bytes="100", segment_index_bytes="240")
    names = ("t", "gone", "emptied", "rolled")
    for number in range(20):
        for name in names:
            harness.produce(batch(b"%d" % number * 20), name)
    contents = {name: records(harness, name) for name in names}

    def change() -> None:
        harness.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=1000), 6)
        log = harness.core.topics.get("emptied").partitions[0].log  # type: ignore[union-attr]  # it was just created
        log.truncate_fully_and_start_at(log.log_end_offset, harness.core.clock.now_ms())
        for _ in range(20):
            harness.produce(batch(b"later" * 10), "rolled")
        harness.create("later")

    take_snapshot(harness.services, tmp_path / "target", change)
    points = read_offset_checkpoint(str(tmp_path / "target" / "recovery-point-offset-checkpoint"))
    restore_snapshot(harness.services, tmp_path / "target")
    assert {name: records(harness, name) for name in names} == contents
    assert harness.core.topics.get("later") is None
    assert points == {(name, 0): end(harness, name) for name in names}
    assert os.listdir(harness.data_dir) == [name for name in os.listdir(harness.data_dir) if "-delete" not in name]


def test_clients_are_served_from_the_state_before_while_a_snapshot_is_restored(
    harness: Harness, tmp_path: Path
) -> None:
    ends = []

    def produce() -> None:
        harness.produce(batch(b"third"))
        ends.append(end(harness))

    restore_snapshot(harness.services, tmp_path / "snapshot", produce)
    assert ends == [3]
    assert end(harness) == 1


@pytest.mark.parametrize("operation", ["snapshot", "restore", "reset", "reset with topics"])
def test_a_disk_that_fails_at_any_call_leaves_the_state_before(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    act: dict[str, Callable[[], object]] = {
        "snapshot": lambda: take_snapshot(harness.services, tmp_path / "target"),
        "restore": lambda: restore_snapshot(harness.services, tmp_path / "snapshot"),
        "reset": lambda: reset(harness.services, lambda: None),
        "reset with topics": lambda: reset(harness.services, lambda: None, keep_topics=True),
    }
    failures = 0  # Only failures that name a path count.
    for number in range(1, 400):
        calls = 0

        def failing(real: Callable[..., Any], at: int = number) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == at:
                    names = [name for name in arguments[:1] if isinstance(name, str)]  # A descriptor has no name.
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *names)
                return real(*arguments, **named)

            return call

        with monkeypatch.context() as patch:
            for name in {*CHANGING, "fsync"} - {"unlink", "rmdir", "remove"}:
                patch.setattr(os, name, failing(getattr(os, name)))
            try:
                act[operation]()
            except OSError as error:
                failures += str(error.filename).startswith(str(tmp_path))
            else:
                if operation != "snapshot" or calls < number:
                    break
                shutil.rmtree(tmp_path / "target")
        for _ in range(2):
            assert harness.fetch_one(0).log_start_offset == 0
            assert end(harness) == 2
            harness.crash()
    assert failures > 10
    if operation in {"restore", "reset"}:
        assert failures == number - 1
    restore_snapshot(harness.services, tmp_path / "snapshot")
    assert end(harness) == 1
    harness.crash()
    assert end(harness) == 1


def epoch(harness: Harness) -> int:
    topics = harness.ask(MetadataRequest(topics=None), 9).topics
    return int(next(topic for topic in topics if topic.name == "t").partitions[0].leader_epoch)


def test_what_was_given_out_is_not_given_out_again_after_a_restore_and_a_kill(harness: Harness, tmp_path: Path) -> None:
    transactional = Producer(harness, "mine")
    take_snapshot(harness.services, tmp_path / "later")
    for _ in range(3):
        transactional.init()
    used_ids = {(transactional.id, transactional.epoch), (init_producer_id(harness, None).producer_id, 0)}
    features = harness.core.features
    before = epoch(harness)
    for source in ("later", "snapshot", "later"):
        features.finalize({"group.version": 1 - features.level("group.version")})
        feature_epoch = features.epoch
        restore_snapshot(harness.services, tmp_path / source)
        harness.run_soon()
        for end_it in (harness.crash, harness.restart):
            assert epoch(harness) > before
            assert harness.core.features.epoch > feature_epoch
            again = Producer(harness, "mine")
            new = {(again.id, again.epoch), (init_producer_id(harness, None).producer_id, 0)}
            assert used_ids.isdisjoint(new)
            used_ids |= new
            end_it()
            harness.run_soon()
        features, before = harness.core.features, epoch(harness)


def test_a_topic_that_is_made_after_a_reset_and_a_kill_has_no_smaller_leader_epoch(harness: Harness) -> None:
    for _ in range(2):
        restore_snapshot(harness.services, Path(harness.data_dir).parent / "snapshot")
    before = epoch(harness)
    reset(harness.services, lambda: None)
    harness.crash()
    harness.create("t")
    assert epoch(harness) >= before


def test_producer_ids_of_another_brokers_snapshot_are_not_given_out(tmp_path: Path) -> None:
    second = Harness(str(tmp_path / "other"))
    second.create("t")
    expected = {init_producer_id(second, None).producer_id for _ in range(1500)}
    take_snapshot(second.services, tmp_path / "snapshot")
    harness = Harness(str(tmp_path / "data"))
    init_producer_id(harness, None)
    restore_snapshot(harness.services, tmp_path / "snapshot")
    assert init_producer_id(harness, None).producer_id not in expected


def test_a_snapshot_and_a_restore_over_http_name_what_is_wrong(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data", topics=["t"]) as broker:
        with pytest.raises(ConflictError, match="own directory"):
            broker.restore(tmp_path / "data")
        with pytest.raises(NotFoundError, match="no such directory"):
            broker.restore(tmp_path / "nowhere")
        broker.produce("t", "x")
        assert [record.text() for record in broker.records("t")] == ["x"]


def test_a_broker_does_not_start_on_a_snapshot_that_was_cut_short(harness: Harness, tmp_path: Path) -> None:
    cut_mark(tmp_path / "snapshot")
    with pytest.raises(MetaPropertiesError, match="snapshot that was cut short"):
        Harness(str(tmp_path / "snapshot"))
    assert end(harness) == 2
