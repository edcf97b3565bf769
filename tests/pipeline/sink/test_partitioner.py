"""Records go to the partitions that Kafka's producers choose."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_pipeline.decode.encoder import binary_of
from minibroker_pipeline.decode.hash_kernel import hashes as hashes_by_numba
from minibroker_pipeline.sink import partitioner
from minibroker_pipeline.sink.partitioner import Hash, Partitioner, hashes_by_numpy

#: From Kafka's UtilsTest.
KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
both = pytest.mark.parametrize("hashes", [hashes_by_numba, hashes_by_numpy])


@both
def test_hashes_are_kafkas(hashes: Hash) -> None:
    keys = binary_of(pa.array(list(KAFKAS)), len(KAFKAS), "key")
    assert hashes(*keys).tolist() == [value & 0xFFFFFFFF for value in KAFKAS.values()]


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30))
def test_both_hashes_agree(keys: list[bytes | None]) -> None:
    column = binary_of(pa.array(keys, pa.binary()), len(keys), "key")
    assert hashes_by_numba(*column).tolist() == hashes_by_numpy(*column).tolist()


def test_without_numba_the_other_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_module(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(partitioner, "import_module", no_module)
    monkeypatch.setattr(partitioner, "_found", [])
    keys = binary_of(pa.array([b"21", b"abc"]), 2, "key")
    found = Partitioner(7).partitions_of(keys, np.array([10, 10]))
    assert found.tolist() == [(-973932308 & 0x7FFFFFFF) % 7, 479470107 % 7]


def test_records_without_a_key_fill_a_batch_of_one_partition_and_then_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = binary_of(None, 10, "key")
    chooser = Partitioner(3, first=1, batch_bytes=100)
    sizes = np.full(10, 40)
    assert chooser.partitions_of(keys, sizes).tolist() == [1, 1, 1, 2, 2, 0, 0, 0, 1, 1]
    assert chooser.partitions_of(keys, sizes).tolist() == [2, 2, 2, 0, 0, 1, 1, 1, 2, 2]


def test_a_single_partition_takes_all() -> None:
    keys = binary_of(pa.array([b"a", None, b""]), 3, "key")
    assert Partitioner(1, first=5).partitions_of(keys, np.array([1, 1, 1])).tolist() == [0, 0, 0]
