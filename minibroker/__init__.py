"""minibroker: a Kafka-protocol broker emulator with real segment files on disk.

`broker` is the Python API. `cluster` contains topics and logs, and `server` everything that serves clients. A request
arrives through a connection, is processed in `server/requests`, and is handled in `server/handlers`. `DESIGN.md`
describes each folder.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minibroker.broker import Broker
    from minibroker.broker.asynchronous import AsyncBroker
    from minibroker.cluster.errors import (
        ConflictError,
        MinibrokerWarning,
        NotFoundError,
        NotRunningError,
        OperationError,
        UnexpectedRecordError,
        WaitTimeoutError,
    )
    from minibroker.config.version import __version__
    from minibroker.operations.matching import record
    from minibroker.operations.options import BrokerOptions
    from minibroker.operations.producing import Message
    from minibroker.security.setup import Security
    from minibroker.server.faults.fault import Fault, FaultError
    from minibroker_chaos.check.results import CheckFailedError

__all__ = [
    "AsyncBroker",
    "Broker",
    "BrokerOptions",
    "CheckFailedError",
    "ConflictError",
    "Fault",
    "FaultError",
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
    "AsyncBroker": ".broker.asynchronous",
    "Broker": ".broker",
    "BrokerOptions": ".operations.options",
    "CheckFailedError": "minibroker_chaos.check.results",
    "Fault": ".server.faults.fault",
    "FaultError": ".server.faults.fault",
    "Message": ".operations.producing",
    "Security": ".security.setup",
    "__version__": ".config.version",
    "record": ".operations.matching",
}
"""The modules of names that are not in `cluster.errors`."""


def __getattr__(name: str) -> Any:
    """Load the broker's modules on first use.

    A test suite that only has the package installed does not load them.
    """
    if name in __all__:
        return getattr(import_module(_MODULES.get(name, ".cluster.errors"), __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
