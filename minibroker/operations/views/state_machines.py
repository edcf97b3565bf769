"""The states of groups and transactions, each with those that may follow it.

Classic groups and transactions go by the tables `validPreviousStates` of Kafka 4.3's `ClassicGroupState` and
`TransactionState`. The states of the other groups are computed from epochs and members, so Kafka has no table of them:
what may follow is what can change in one step. A step that leads back to the same state is left out.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from minibroker.coordinators.groups.classic.group import CAN_FOLLOW, Group, GroupState
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from minibroker.coordinators.groups.share.group import ShareGroup, ShareGroupState
from minibroker.coordinators.groups.streams.group import StreamsGroup, StreamsGroupState
from minibroker.coordinators.transactions.transaction import TransactionState

Machine: TypeAlias = Mapping[str, tuple[str, ...]]
"""The names of all states in the order of a life, each with the names of those that may follow."""

_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_BEFORE_TRANSACTION: Final = {
    TransactionState.EMPTY: _COMPLETE,
    TransactionState.ONGOING: (TransactionState.EMPTY, *_COMPLETE),
    TransactionState.PREPARE_COMMIT: (TransactionState.ONGOING,),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.PREPARE_EPOCH_FENCE: (TransactionState.ONGOING,),
    TransactionState.PREPARE_ABORT: (
        TransactionState.ONGOING,
        TransactionState.PREPARE_EPOCH_FENCE,
        TransactionState.EMPTY,
        *_COMPLETE,
    ),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
    TransactionState.DEAD: (TransactionState.EMPTY, *_COMPLETE),
}


def _computed(*states: str) -> Machine:
    """Of a group that lives, any state may come, but a group dies only when it is empty."""
    empty, *living, dead = states
    following = {state: (empty, *(each for each in living if each != state)) for state in living}
    return {empty: (*living, dead), **following, dead: ()}


TRANSACTION: Final[Machine] = {
    state.wire_name: tuple(each.wire_name for each, before in _BEFORE_TRANSACTION.items() if state in before)
    for state in _BEFORE_TRANSACTION
}
GROUPS: Final[Mapping[str, Machine]] = {
    Group.kind: {
        state.value: tuple(each.value for each in GroupState if state in CAN_FOLLOW[each] and each is not state)
        for state in GroupState
    },
    ConsumerGroup.kind: _computed(*(each.value for each in ConsumerGroupState)),
    ShareGroup.kind: _computed(*(each.value for each in ShareGroupState)),
    StreamsGroup.kind: _computed(*(each.value for each in StreamsGroupState)),
}
"""By the types of groups."""
