"""AddRaftVoter: the voters are fixed; codes and sentences compared with Kafka 3.9.1."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import AddRaftVoterRequest
from minibroker_protocol.primitives import ZERO_UUID
from tests.broker.harness import Harness

DIRECTORY = b"\1" * 16


def ask(harness: Harness, version: int = 0, **fields: Any) -> tuple[int, str | None]:
    given: dict[str, Any] = {
        "cluster_id": None,
        "voter_id": 7,
        "voter_directory_id": DIRECTORY,
        "timeout_ms": 1000,
        "listeners": [],
        **fields,
    }
    response = harness.ask(AddRaftVoterRequest(**given), version)
    return response.error_code, response.error_message


@pytest.mark.parametrize("version", range(2))
def test_the_cluster_cannot(harness: Harness, version: int) -> None:
    for cluster_id in (None, harness.core.cluster.cluster_id):
        code, message = ask(harness, version, cluster_id=cluster_id)
        assert code == ErrorCode.UNSUPPORTED_VERSION
        assert message is not None
        assert "kraft.version feature is 0" in message


def test_another_cluster_is_meant(harness: Harness) -> None:
    assert ask(harness, cluster_id="other")[0] == ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize("fields", [{"voter_id": -1}, {"voter_directory_id": ZERO_UUID}])
def test_no_voter_is_named(harness: Harness, fields: dict[str, Any]) -> None:
    assert ask(harness, **fields) == (ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
