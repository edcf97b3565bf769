"""Operations on a broker beside Kafka's protocol: look into it, fill it, move its time, reset it.

Functions over a `Services`, called on its event loop. `Broker` and `AsyncBroker` bring them to Python programs, the
control plane to all others. Operations commit the write group first: they see what producers have seen.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Load a module when its first function is called: a start needs none of them."""
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
