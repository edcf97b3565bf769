"""Names of files and directories; creating and removing partition directories."""

import errno
import os
from pathlib import Path

import pytest

from minibroker_storage.checkpoints import read_partition_metadata
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.layout import (
    create_partition_directory,
    create_unused_directory,
    delete_directory_name,
    file_name,
    offset_of,
    purge,
)
from tests.storage.helpers import NOW, TOPIC_ID, a_batch, open_log, refusing


def test_files_are_named_by_twenty_digits() -> None:
    assert file_name(368769, ".index") == "00000000000000368769.index"
    assert offset_of("00000000000000368769.timeindex") == 368769
    assert offset_of("00000000000000000042.log.swap") == 42


@pytest.mark.parametrize(
    "name", ["partition.metadata", "leader-epoch-checkpoint", "42.log", "0000000000000000004x.log", "", "0" * 21]
)
def test_other_names_have_no_offset(name: str) -> None:
    assert offset_of(name) is None


def test_a_new_partition_has_all_files_of_its_empty_first_segment(tmp_path: Path) -> None:
    create_partition_directory(str(tmp_path / "orders-0"), TOPIC_ID)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "orders-0").iterdir()}
    assert sizes == {
        "00000000000000000000.log": 0,
        "00000000000000000000.index": 0,
        "00000000000000000000.timeindex": 0,
        "leader-epoch-checkpoint": 0,
        "partition.metadata": 43,
    }


def test_preallocated_files_take_no_room(tmp_path: Path) -> None:
    directory = str(tmp_path / "orders-0")
    create_partition_directory(directory, TOPIC_ID)
    log = open_log(Path(directory), LogConfig())
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "orders-0").iterdir()}
    assert (sizes["00000000000000000000.index"], sizes["00000000000000000000.timeindex"]) == (10485760, 10485756)
    log.close()
    assert sum(path.stat().st_blocks for path in (tmp_path / "orders-0").iterdir()) * 512 < 64 * 1024


@pytest.mark.parametrize("last_stop", LastStop)
def test_a_new_partition_opens_as_an_empty_log(tmp_path: Path, last_stop: LastStop) -> None:
    directory = str(tmp_path / "orders-0")
    create_partition_directory(directory, TOPIC_ID)
    log = open_log(Path(directory), LogConfig(), last_stop)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.size) == (0, 0, 0, 0)
    batch = a_batch()
    assert log.append(batch.view, batch.header, 0, NOW) == 0
    log.close()


def test_a_directory_that_holds_something_is_not_touched_and_an_empty_one_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "orders-1").mkdir()
    create_partition_directory(str(tmp_path / "orders-1"), TOPIC_ID)
    assert len(os.listdir(tmp_path / "orders-1")) == 5
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "notes").touch()
    with pytest.raises(FileExistsError):
        create_partition_directory(str(tmp_path / "orders-0"), TOPIC_ID)
    assert os.listdir(tmp_path / "orders-0") == ["notes"]


def test_an_unused_partition_has_its_topics_id_alone_and_opens_as_an_empty_log(tmp_path: Path) -> None:
    directories = [str(tmp_path / f"orders-{number}") for number in range(3)]
    for directory, twin in zip(directories, [None, *directories], strict=False):
        create_unused_directory(directory, TOPIC_ID, twin=twin)
        assert os.listdir(directory) == ["partition.metadata"]
        assert read_partition_metadata(f"{directory}/partition.metadata") == TOPIC_ID
    assert os.stat(f"{directories[0]}/partition.metadata").st_nlink == 3
    log = open_log(Path(directories[1]), LogConfig())
    batch = a_batch()
    assert log.append(batch.view, batch.header, 0, NOW) == 0
    log.close()
    purge(directories[0])
    assert read_partition_metadata(f"{directories[2]}/partition.metadata") == TOPIC_ID


def test_an_unused_partition_has_a_file_of_its_own_where_there_are_no_links(tmp_path: Path) -> None:
    first, second = str(tmp_path / "orders-0"), str(tmp_path / "orders-1")
    create_unused_directory(first, TOPIC_ID)
    with refusing("link", errno.EMLINK):
        create_unused_directory(second, TOPIC_ID, twin=first)
    assert read_partition_metadata(f"{second}/partition.metadata") == TOPIC_ID
    assert os.stat(f"{second}/partition.metadata").st_nlink == 1


def test_an_unused_partition_that_the_disk_refuses_leaves_nothing_and_others_files_stay(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "notes").touch()
    with pytest.raises(FileExistsError):
        create_unused_directory(str(tmp_path / "orders-0"), TOPIC_ID)
    assert os.listdir(tmp_path / "orders-0") == ["notes"]
    with refusing("write"), pytest.raises(OSError, match="No space left"):
        create_unused_directory(str(tmp_path / "orders-1"), TOPIC_ID)
    assert os.listdir(tmp_path) == ["orders-0"]


def test_a_deleted_partition_is_named_as_kafka_names_it() -> None:
    name = delete_directory_name("data/my-topic-12")
    assert name.startswith("data/my-topic-12.")
    assert name.endswith("-delete")
    assert len(bytes.fromhex(name.removeprefix("data/my-topic-12.").removesuffix("-delete"))) == 16
    assert delete_directory_name("data/my-topic-12") != name


def test_a_long_topic_is_cut_so_that_the_name_fits_a_file_system() -> None:
    name = os.path.basename(delete_directory_name(f"data/{'t' * 249}-12"))
    assert len(name) == 255
    assert name.startswith("t" * 200)
    assert "-12." in name


def test_purging_removes_a_directory_once_and_for_all(tmp_path: Path) -> None:
    create_partition_directory(str(tmp_path / "orders-0"), TOPIC_ID)
    purge(str(tmp_path / "orders-0"))
    assert os.listdir(tmp_path) == []
    purge(str(tmp_path / "orders-0"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("segment_bytes", 13),
        ("segment_bytes", 2**31),
        ("segment_ms", 0),
        ("index_interval_bytes", -1),
        ("segment_index_bytes", 3),
        ("segment_index_bytes", 2**31),
        ("producer_id_expiration_ms", 0),
    ],
)
def test_a_configuration_that_kafka_refuses_is_refused(field: str, value: int) -> None:
    name = field.replace("_", ".")
    with pytest.raises(ValueError, match=name.removeprefix("producer.id.")):
        LogConfig(**{field: value})  # type: ignore[arg-type]  # an int for each of these
