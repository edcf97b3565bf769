"""minibroker: a Kafka-protocol broker emulator with real segment files on disk.

`broker` and `async_broker` are the Python API. `core` has configuration, topics and logs, `services` all that serves
clients. A request comes in by `server`, takes its way in `requests`, and is handled in `handlers`. `DESIGN.md` has a
line for each folder.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minibroker.async_broker import AsyncBroker
    from minibroker.broker import Broker
    from minibroker.errors import (
        ConflictError,
        MinibrokerWarning,
        NotFoundError,
        NotRunningError,
        OperationError,
        UnexpectedRecordError,
        WaitTimeoutError,
    )
    from minibroker.faults.fault import Fault
    from minibroker.operations.matching import record
    from minibroker.operations.producing import Message
    from minibroker.options import BrokerOptions
    from minibroker.security.setup import Security
    from minibroker.version import __version__

__all__ = [
    "AsyncBroker",
    "Broker",
    "BrokerOptions",
    "ConflictError",
    "Fault",
    "Message",
    "MinibrokerWarning",
    "NotFoundError",
    "NotRunningError",
    "OperationError",
    "Security",
    "UnexpectedRecordError",
    "WaitTimeoutError",
    "__version__",
    "record",
]
_MODULES = {
    "AsyncBroker": "async_broker",
    "Broker": "broker",
    "BrokerOptions": "options",
    "ConflictError": "errors",
    "Fault": "faults.fault",
    "Message": "operations.producing",
    "MinibrokerWarning": "errors",
    "NotFoundError": "errors",
    "NotRunningError": "errors",
    "OperationError": "errors",
    "Security": "security.setup",
    "UnexpectedRecordError": "errors",
    "WaitTimeoutError": "errors",
    "__version__": "version",
    "record": "operations.matching",
}


def __getattr__(name: str) -> Any:
    """Load the broker at its first use: a test suite that only has the package installed pays nothing."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
