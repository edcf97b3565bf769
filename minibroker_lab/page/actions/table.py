"""The table of actions: each one is an operation of the control plane."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Action(NamedTuple):
    """One action.

    Attributes:
        name: the control plane's operation.
        title: what a user reads.
        needed: fields that the form wants, though the operation can do without.
        hidden: fields of the operation that the form does without.
        lists: for fields with values that the broker knows, the kind of these values.
        meanings: of fields that mean something else in the form than in the operation.
    """

    name: str
    title: str
    needed: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    lists: Mapping[str, str] = MappingProxyType({})
    meanings: Mapping[str, str] = MappingProxyType({})


_TOPIC: Final = {"topic": "topics"}
_NODE: Final = {"node_id": "brokers"}

ACTIONS: Final = (
    Action(
        "produce",
        "Produce a record",
        lists=_TOPIC,
        meanings={
            "value": "A text. Leave it empty for null.",
            "key": "A text. Leave it empty for null.",
            "headers": "One line `NAME=VALUE` for each.",
            "timestamp": "ms since the epoch. Leave it empty for the broker's time.",
            "partition": "Leave it empty for the one that the key decides. Without a key the partitions take turns.",
            "codec": "The codec that the batch is compressed with.",
        },
    ),
    Action(
        "read_records",
        "Consume records",
        hidden=frozenset({"format"}),
        lists=_TOPIC,
        meanings={"isolation": "`read_committed` leaves out what transactions have not committed."},
    ),
    Action(
        "create_topic",
        "Create a topic",
        needed=frozenset({"name"}),
        hidden=frozenset({"prefix"}),
        meanings={
            "name": "The name of the new topic.",
            "configs": "One line `NAME=VALUE` for each, under Kafka's names: `retention.ms=60000`.",
        },
    ),
    Action("rebalance", "Rebalance a group", lists={"group_id": "groups"}),
    Action("move_leader", "Move a leader", lists=_TOPIC | _NODE),
    Action("stop_broker", "Stop a broker", lists=_NODE),
    Action("start_broker", "Start a broker", lists=_NODE),
    Action("advance_clock", "Advance the clock", meanings={"seconds": "The seconds to move on by."}),
    Action(
        "add_fault",
        "Install a fault",
        lists={"api": "apis", "error": "errors", "topic": "topics", "group": "groups", "node": "brokers"},
    ),
    Action("clear_faults", "Remove all faults"),
    Action("reset", "Reset the broker"),
    Action(
        "take_snapshot",
        "Save a snapshot",
        meanings={
            "name": "To restore it by. Without one it gets a number.",
            "directory": "A new one on the broker's machine. A temporary one if you leave it empty.",
        },
    ),
    Action("restore_snapshot", "Restore a snapshot", lists={"name": "snapshots"}),
)
