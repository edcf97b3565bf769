"""Operations on a broker beside Kafka's protocol: look into it, fill it, move its time, reset it.

Functions over a `Services`, called on its event loop. `Broker` and `AsyncBroker` bring them to Python programs, the
control plane to all others. Operations commit the write group first: they see what producers have seen.
"""

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.operations import (
        catching_up,
        expecting,
        faults,
        groups,
        matching,
        producing,
        records,
        reset,
        settings,
        share_groups,
        snapshots,
        time,
        topics,
    )

__all__ = [
    "catching_up",
    "expecting",
    "faults",
    "groups",
    "matching",
    "producing",
    "records",
    "reset",
    "settings",
    "share_groups",
    "snapshots",
    "time",
    "topics",
]
