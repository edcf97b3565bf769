"""Whether a produce request is one to be served in slices; no module of its messages is loaded for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    # Names for the type checkers: a start loads a message only when a client sends it.
    from minibroker_protocol.messages.produce import ProduceRequest

_FEW_BATCHES: Final = 4


def has_many_batches(request: ProduceRequest) -> bool:
    """Whether a request takes so long that it should be served in slices: each batch may be walked record by record."""
    topics = request.topic_data
    if len(topics) == 1:
        return len(topics[0].partition_data) > _FEW_BATCHES
    return sum(len(topic.partition_data) for topic in topics) > _FEW_BATCHES
