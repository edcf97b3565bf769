"""AddOffsetsToTxn: a group's partition of the offsets topic joins a transaction."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fenced_producer_is_told_so_in_its_versions_words(harness: Harness, version: int) -> None:
    old = Producer(harness)
    Producer(harness)
    fenced = ErrorCode.PRODUCER_FENCED if version > 1 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.add_offsets("g", version=version) == fenced


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_without_transactional_id_has_no_transaction(harness: Harness, version: int) -> None:
    producer = Producer(harness, "", init=False)
    assert producer.add_offsets("g", version=version) == ErrorCode.INVALID_REQUEST
    producer = Producer(harness, "unknown", init=False)
    assert producer.add_offsets("g", version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
