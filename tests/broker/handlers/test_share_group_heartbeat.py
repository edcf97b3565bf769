from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.handlers.share_group_requests import ShareGroupClient
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of


def test_a_member_joins_is_assigned_and_leaves(harness: Harness) -> None:
    client = ShareGroupClient(harness)
    answer = client.beat()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert (answer.heartbeat_interval_ms, answer.assignment.topic_partitions) == (5_000, [])
    assert client.beat(epoch=2).assignment is None
    harness.clock.advance(1_000)
    answer = client.beat(epoch=2)
    assert answer.member_epoch == 3
    assert [(bytes(each.topic_id), each.partitions) for each in answer.assignment.topic_partitions] == [
        (topic_of(harness, "t").id, [0])
    ]
    answer = client.beat(epoch=-1)
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (0, "a", -1, 0)
    assert client.beat(epoch=3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_before_4_3_a_group_begins_in_epoch_0_and_always_assigns(tmp_path: Path) -> None:
    with closing(Harness(str(tmp_path), {"minibroker.emulate": "4.2"})) as harness:
        client = ShareGroupClient(harness)
        assert [client.beat(member=member).member_epoch for member in ("a", "b")] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member": ""}, ErrorCode.INVALID_REQUEST),
        ({"member": "m" * 37}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"topics": []}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_cannot_be_meant_is_refused(harness: Harness, fields: dict[str, Any], code: ErrorCode) -> None:
    harness.services.groups.store.log.ensure()
    answer = ShareGroupClient(harness).beat(**fields)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (code, 0, 0)


def test_without_the_feature_there_are_no_share_groups(harness: Harness) -> None:
    harness.core.features.finalize({"share.version": 0})
    client = ShareGroupClient(harness)
    assert client.beat().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.describe().error_code == ErrorCode.UNSUPPORTED_VERSION
