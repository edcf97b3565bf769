"""minibroker: a Kafka-protocol broker emulator with real segment files on disk."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minibroker.broker import Broker

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the broker when someone asks for it: a test suite that only has the package installed pays nothing."""
    if name == "Broker":
        from minibroker.broker import Broker  # noqa: PLC0415 - see above

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
