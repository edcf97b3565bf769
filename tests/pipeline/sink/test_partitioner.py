"""Records are assigned to the same partitions as by Kafka's producers."""

import numpy as np
import pyarrow as pa
import pytest

from minibroker_pipeline.decode.encoder import extract_binary
from minibroker_pipeline.sink.task_writer import Partitioner, murmur2

#: Expected hashes from Kafka's UtilsTest.
KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_hashes_are_kafkas() -> None:
    keys = extract_binary(pa.array(list(KAFKAS)), len(KAFKAS), "key")
    assert murmur2(*keys).tolist() == [value & 0xFFFFFFFF for value in KAFKAS.values()]


def test_records_without_a_key_fill_a_batch_of_one_partition_and_then_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = extract_binary(None, 10, "key")
    chooser = Partitioner(3, first=1, batch_bytes=100)
    sizes = np.full(10, 40)
    assert chooser.partitions_of(keys, sizes).tolist() == [1, 1, 1, 2, 2, 0, 0, 0, 1, 1]
    assert chooser.partitions_of(keys, sizes).tolist() == [2, 2, 2, 0, 0, 1, 1, 1, 2, 2]


def test_a_single_partition_takes_all() -> None:
    keys = extract_binary(pa.array([b"a", None, b""]), 3, "key")
    assert Partitioner(1, first=5).partitions_of(keys, np.array([1, 1, 1])).tolist() == [0, 0, 0]
