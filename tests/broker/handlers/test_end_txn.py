"""EndTxn: a transaction is committed, or aborted, once."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.transactions.producer import Producer, read_committed
from tests.broker.harness import Harness

VERSIONS = range(5)
"""Version 5 is another thing: see `tests.broker.coordinators.transactions.test_epochs`."""
EITHER_END = pytest.mark.parametrize("commit", [True, False])


@pytest.mark.parametrize("version", VERSIONS)
@EITHER_END
def test_every_version_ends_a_transaction(harness: Harness, version: int, commit: bool) -> None:  # noqa: FBT001 - a parameter
    producer = Producer(harness)
    producer.write(b"x")
    assert producer.end(commit=commit, version=version) == 0
    assert read_committed(harness) == ([b"x"] if commit else [])
    assert producer.end(commit=commit, version=version) == 0
    assert producer.end(commit=not commit, version=version) == ErrorCode.INVALID_TXN_STATE


def test_only_the_producer_itself_ends_its_transaction(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    for transactional_id, producer_id, code in (
        ("", producer.id, ErrorCode.INVALID_REQUEST),
        ("unknown", producer.id, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("mine", producer.id + 1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ):
        other = Producer(harness, transactional_id, init=False)
        other.id, other.epoch = producer_id, 0
        assert other.commit() == code
    assert producer.commit() == 0
