"""AddOffsetsToTxn: a group's partition of the offsets topic joins a transaction."""

import pytest

from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness

VERSIONS = range(5)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_adds_the_groups_partition(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    assert producer.add_offsets("g", version=version) == 0
    known = harness.services.transactions.store.get("mine")
    assert known is not None
    assert known.partitions == {("__consumer_offsets", harness.services.groups.store.partition_of("g"))}
    assert producer.commit_offset("g", 1) == 0
    assert producer.commit() == 0
