"""A segment divided among tasks gives the same result as a whole segment."""

from pathlib import Path

import pytest

from minibroker_pipeline.filesystem import filesystem_of
from minibroker_pipeline.jobs.segment_walk import cut
from minibroker_pipeline.jobs.stats import stats
from minibroker_pipeline.jobs.verify import verify
from tests.pipeline.jobs.directories import put_indexes, put_log
from tests.pipeline.jobs.test_verify import SIZE, batch


@pytest.mark.parametrize("damage", [(), (SIZE + 80,), (20 * SIZE + 8,), (60,), (39 * SIZE + 1,), (7 * SIZE, 30 * SIZE)])
def test_large_segments_are_shared_out_and_found_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: tuple[int, ...]
) -> None:
    epochs = [number // 9 for number in range(40)]
    transactional = {"producer_id": 7, "producer_epoch": 0, "attributes": 0x10}
    batches = [
        batch(number, partition_leader_epoch=epoch, **(transactional if number % 7 == 3 else {}))
        for number, epoch in enumerate(epochs)
    ]
    data = bytearray(b"".join(batches))
    for position in damage:
        data[position] ^= 0x55
    partition = put_log(tmp_path, "orders-0", bytes(data))
    ends = [(5 * number + 4, number * SIZE) for number in range(1, 40, 2)]
    put_indexes(partition, 0, ends, [(40_000, 199)])
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    whole = verify([str(tmp_path)]).as_json(), stats([str(tmp_path)]).total().counts
    monkeypatch.setattr("minibroker_pipeline.jobs.segment_walk.RANGE_BYTES", 4 * SIZE)
    assert (verify([str(tmp_path)], processes=1).as_json(), stats([str(tmp_path)]).total().counts) == whole
    assert len(cut(filesystem_of(str(partition))[0], f"{partition}/{0:020d}", 0, len(data))) > 8
