"""An error in the form of a response of the APIs of groups of the consumer protocol."""

from typing import Any, Final

from minibroker.faults.declarations import Answering, alone, messages_of
from minibroker_protocol.error_codes import ErrorCode


def _describe(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("consumer_group_describe")
    groups = [
        m.DescribedGroup(
            error_code=code,
            group_id=group,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=[],
        )
        for group in request.group_ids
    ]
    return m.ConsumerGroupDescribeResponse(groups=groups)


CONSUMER_GROUP_ANSWERS: Final[dict[str, Answering]] = {
    "ConsumerGroupHeartbeat": alone(
        "consumer_group_heartbeat", "ConsumerGroupHeartbeatResponse", member_epoch=int, heartbeat_interval_ms=int
    ),
    "ConsumerGroupDescribe": _describe,
}
"""By API, as in `error_answers`."""
