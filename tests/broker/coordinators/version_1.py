"""The rule by which minibroker 1.0 chose partitions for groups, transactional ids and share-partitions."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from minibroker.coordinators import coordinator_log
from tests.broker.harness import Harness


def partition_in_version_1(key: str, partitions: int) -> int:
    """Return the partition computed by masking the sign bit of the hash."""
    return (coordinator_log.java_hash(key) & 0x7FFF_FFFF) % partitions


@contextmanager
def version_1_rule() -> Iterator[None]:
    """Choose partitions like version 1.0 within the block."""
    with patch.object(coordinator_log, "partition_for", partition_in_version_1):
        yield


@contextmanager
def version_1(harness: Harness) -> Iterator[None]:
    """Run version 1.0 on the directory within the block, and a newer version before and after it."""
    with version_1_rule():
        harness.restart()
        yield
        harness.close()
    harness.start()
    harness.run_soon()
