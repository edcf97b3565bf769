"""After a restart, the last five batches of each producer are recognized, not only the one in the snapshot."""

from pathlib import Path

import pytest

from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from tests.storage.helpers import Home, a_batch, sequenced

STOPS = list(LastStop)
SMALL_SEGMENTS = LogConfig(segment_bytes=250, index_interval_bytes=0)


def known(home: Home, producer_id: int = 7) -> list[tuple[int, int, int]]:
    """Return the first sequence, last sequence and base offset of each known batch."""
    entry = home.log.producers.active[producer_id]
    return [(batch.first_sequence, batch.last_sequence, batch.base_offset) for batch in entry.batches]


def reopen(home: Home, stop: LastStop, log_start_offset: int = 0) -> None:
    if stop is LastStop.CLEAN:
        home.log.close()
    else:
        home.crash()
    home.open(last_stop=stop, log_start_offset=log_start_offset)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("config", [LogConfig(), SMALL_SEGMENTS], ids=["one segment", "many segments"])
def test_five_batches_of_each_producer_are_known_after_any_stop(
    tmp_path: Path, config: LogConfig, stop: LastStop
) -> None:
    home = Home(tmp_path / "orders-0", config)
    for number in range(12):
        home.append(sequenced(2 * number, 2), sequenced(number, producer_id=8), a_batch())
    home.append(*(sequenced(number, producer_id=9) for number in range(3)))
    before = {producer_id: known(home, producer_id) for producer_id in (7, 8, 9)}
    assert [len(batches) for batches in before.values()] == [5, 5, 3]
    home.log.take_producer_snapshot()
    reopen(home, stop)
    assert {producer_id: known(home, producer_id) for producer_id in (7, 8, 9)} == before


@pytest.mark.parametrize("stop", [LastStop.CLEAN, LastStop.KILLED])  # After a crash, the log itself is replayed.
def test_batches_of_an_earlier_epoch_and_rows_with_a_gap_are_not_recalled(tmp_path: Path, stop: LastStop) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(sequenced(number) for number in range(4)))
    home.append(*(sequenced(number, epoch=1) for number in range(2)))
    home.append(sequenced(0, producer_id=8), sequenced(50, producer_id=8))
    home.log.take_producer_snapshot()
    reopen(home, stop)
    assert known(home) == [(0, 0, 4), (1, 1, 5)]
    assert known(home, 8) == [(50, 50, 7)]


@pytest.mark.parametrize("stop", STOPS)
def test_sequences_that_wrap_are_recalled(tmp_path: Path, stop: LastStop) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(sequenced(2**31 - 3, 2), sequenced(2**31 - 1, 2), sequenced(1))
    home.log.take_producer_snapshot()
    reopen(home, stop)
    assert known(home) == [(2**31 - 3, 2**31 - 2, 0), (2**31 - 1, 0, 2), (1, 1, 4)]


@pytest.mark.parametrize("stop", [LastStop.KILLED, LastStop.CRASHED])
def test_a_batch_that_the_log_start_lies_in_is_known(tmp_path: Path, stop: LastStop) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(sequenced(0, 10))
    reopen(home, stop, log_start_offset=5)
    assert known(home) == [(0, 9, 0)]


def test_a_truncated_log_recalls_them_as_well(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(sequenced(number) for number in range(8)))
    home.log.take_producer_snapshot()
    home.append(*(sequenced(number) for number in range(8, 11)))
    home.log.truncate_to(9, 0)
    assert known(home) == [(number, number, number) for number in range(4, 9)]
