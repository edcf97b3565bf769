"""Acknowledgements of a request, which may be many, in steps."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from minibroker.coordinators.share_partitions.acknowledging import Acknowledgement, parts_of
from minibroker.coordinators.share_partitions.share_partition import SharePartition
from minibroker.coordinators.share_state.batches import MOST_BATCHES
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode


def acknowledge_in_steps(
    share_partition: SharePartition, member: str, acknowledgements: Sequence[Acknowledgement]
) -> Steps[ErrorCode]:
    """`SharePartition.acknowledge`, for a broker with other clients. The acknowledgements are in order.

    Many are looked at before any of them counts, and then count some at a time: if a lock ends amid them, those
    before it have counted. INVALID_REQUEST where more runs of offsets would differ than a state can tell.
    """
    begin = bisect_left(acknowledgements, share_partition.start_offset, key=attrgetter("last"))
    parts = parts_of(acknowledgements[begin:])
    if share_partition.in_flight > MOST_BATCHES:
        count = sum(len(each.types) for part in parts for each in part)
        if 2 * count + sum(1 for _ in share_partition.pieces) > MOST_BATCHES:
            return ErrorCode.INVALID_REQUEST
    for part in parts if len(parts) > 1 else ():
        if not all(share_partition.has_acquired(member, each) for each in part):
            return ErrorCode.INVALID_RECORD_STATE
        yield
    for part in parts:
        code = share_partition.acknowledge(member, part)
        if code:
            return code
        yield
    return ErrorCode.NONE
