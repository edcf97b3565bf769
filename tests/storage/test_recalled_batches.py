"""After a restart, the last five batches of each producer are recognized, not only the one in the snapshot."""

from pathlib import Path

import pytest

from minibroker_storage import recovery
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from tests.storage.helpers import Home, a_batch, sequenced


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "orders-0", LogConfig())


def known(home: Home, producer_id: int = 7) -> list[tuple[int, int, int]]:
    """Return the first sequence, last sequence and base offset of each known batch."""
    entry = home.log.producers.active[producer_id]
    return [(batch.first_sequence, batch.last_sequence, batch.base_offset) for batch in entry.batches]


@pytest.mark.parametrize("stop", LastStop)
@pytest.mark.parametrize("segment_bytes", [250, 3000, 1 << 30])
def test_the_last_five_batches_of_each_producer_are_known_again(
    tmp_path: Path, segment_bytes: int, stop: LastStop
) -> None:
    """A snapshot contains each producer's last batch. Earlier batches are found in the log in any order."""
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=segment_bytes, index_interval_bytes=500))
    counts = {1: 3, 2: 40, 3: 5, 4: 90}
    for number in range(90):
        for producer_id, count in counts.items():
            if number < count:
                home.append(sequenced(number, producer_id=producer_id))
    home.append(sequenced(0, producer_id=3, epoch=1), sequenced(1, producer_id=3, epoch=1))
    home.log.take_producer_snapshot()
    producers = {producer_id: entry.batches for producer_id, entry in home.log.producers.active.items()}
    assert {producer_id: len(batches) for producer_id, batches in producers.items()} == {1: 3, 2: 5, 3: 2, 4: 5}
    log = home.reopen(stop)
    assert {producer_id: entry.batches for producer_id, entry in log.producers.active.items()} == producers
    repeated = log.producers.check(sequenced(86, producer_id=4).header)
    assert repeated is not None
    assert repeated == producers[4][1]


def test_the_search_for_them_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "MAX_RECALLED_BATCHES", 50)
    monkeypatch.setattr(recovery, "RECALL_WINDOW_BYTES", 1000)
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=0))
    home.append(sequenced(0), sequenced(1))
    home.append(*(a_batch() for _ in range(300)))
    home.append(sequenced(2), sequenced(3))
    log = home.reopen(LastStop.CLEAN)
    assert [batch.first_sequence for batch in log.producers.active[7].batches] == [2, 3]


@pytest.mark.parametrize("stop", [LastStop.CLEAN, LastStop.KILLED])  # After a crash, the log itself is replayed.
def test_batches_of_an_earlier_epoch_and_rows_with_a_gap_are_not_recalled(home: Home, stop: LastStop) -> None:
    home.append(*(sequenced(number) for number in range(4)))
    home.append(*(sequenced(number, epoch=1) for number in range(2)))
    home.append(sequenced(0, producer_id=8), sequenced(50, producer_id=8))
    home.log.take_producer_snapshot()
    home.reopen(stop)
    assert known(home) == [(0, 0, 4), (1, 1, 5)]
    assert known(home, 8) == [(50, 50, 7)]


@pytest.mark.parametrize("stop", LastStop)
def test_sequences_that_wrap_are_recalled(home: Home, stop: LastStop) -> None:
    home.append(sequenced(2**31 - 3, 2), sequenced(2**31 - 1, 2), sequenced(1))
    home.log.take_producer_snapshot()
    home.reopen(stop)
    assert known(home) == [(2**31 - 3, 2**31 - 2, 0), (2**31 - 1, 0, 2), (1, 1, 4)]


@pytest.mark.parametrize("stop", [LastStop.KILLED, LastStop.CRASHED])
def test_a_batch_that_the_log_start_lies_in_is_known(home: Home, stop: LastStop) -> None:
    home.append(sequenced(0, 10))
    home.reopen(stop, log_start_offset=5)
    assert known(home) == [(0, 9, 0)]


def test_a_truncated_log_recalls_them_as_well(home: Home) -> None:
    home.append(*(sequenced(number) for number in range(8)))
    home.log.take_producer_snapshot()
    home.append(*(sequenced(number) for number in range(8, 11)))
    home.log.truncate_to(9, 0)
    assert known(home) == [(number, number, number) for number in range(4, 9)]
