"""Decodes the keys and values of the coordinators' records in a tree of batches."""

from typing import Any, Final

from minibroker_protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from minibroker_protocol.coordinator_records.consumer_groups import CONSUMER_GROUP_RECORDS
from minibroker_protocol.coordinator_records.share_groups import SHARE_GROUP_RECORDS, SHARE_STATE_RECORDS
from minibroker_protocol.coordinator_records.streams_groups import STREAMS_GROUP_RECORDS
from minibroker_protocol.coordinator_records.versioned import version_of
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.structures import payload_node
from minibroker_protocol.fields.tree import CONTENT, RECORD, Budget, Cursor, Limits, Node
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from minibroker_protocol.schema import schema_of

_Kinds = tuple[tuple[type[Any], type[Any]], ...]

_BY_TOPIC: Final[dict[str, _Kinds]] = {
    CONSUMER_OFFSETS: (
        (OffsetCommitKey, OffsetCommitValue),
        (GroupMetadataKey, GroupMetadataValue),
        *CONSUMER_GROUP_RECORDS,
        *SHARE_GROUP_RECORDS,
        *STREAMS_GROUP_RECORDS,
    ),
    TRANSACTION_STATE: ((TransactionLogKey, TransactionLogValue),),
    SHARE_GROUP_STATE: SHARE_STATE_RECORDS,
}
"""The key and value classes for each topic. The version of a key selects the pair."""


def open_records(root: Node, data: memoryview, topic: str, limits: Limits) -> None:
    """Decode the keys and values of all records in a tree, if `topic` is a coordinator's topic.

    The tree describes the bytes in `data` and is changed in place. Transaction markers and unknown keys and values
    remain bytes.
    """
    kinds = _BY_TOPIC.get(topic)
    if kinds is None:
        return
    budget = Budget(limits.record_fields)
    pending = [(root, data)]
    while pending:
        node, node_data = pending.pop()
        if node.type == RECORD:
            _open_record(node, node_data, kinds, budget)
            continue
        pending += [(child, node_data) for child in node.children or ()]
        if node.inside is not None:
            inside_data = memoryview(node.inside.data)
            pending += [(child, inside_data) for child in node.inside.children]


def _open_record(record: Node, data: memoryview, kinds: _Kinds, budget: Budget) -> None:
    try:
        key, value = record.find("key"), record.find("value")
        content = key.find(CONTENT)
        version = version_of(data[content.start : content.end], "key")
    except (KeyError, DecodeError):
        return
    for key_class, value_class in kinds:
        if version in schema_of(key_class).versions:
            _decode_content(key, data, key_class, budget)
            _decode_content(value, data, value_class, budget)
            record.note = key_class.__name__.removesuffix("Key")
            return


def _decode_content(node: Node, data: memoryview, cls: type[Any], budget: Budget) -> None:
    """Replace the bytes of a key or value with the fields of its message."""
    children = node.children or []
    content = children[-1] if children else None
    if content is None or content.name != CONTENT or budget.left <= 0:
        return
    payload = payload_node(Cursor(data, content.start, content.end, budget), cls)
    if payload is not None:
        children[-1] = payload
