"""Errors that the caller of an operation has caused, and the choice of the lines that a traceback of one shows."""

from typing import Final, Protocol

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.cluster import cluster


class OperationError(ValueError):
    """The broker cannot do what was asked for; the message names the value and the reason."""


class NotFoundError(OperationError):
    """A topic, partition, group or other thing does not exist."""


class ConflictError(OperationError):
    """The present state of the broker does not allow the operation."""


class NotRunningError(RuntimeError):
    """The broker does not run, or runs on another event loop than the method is for."""


NOT_RUNNING: Final = (
    "the broker is not running: use it inside `with Broker() as broker:` (`async with` for an AsyncBroker), or between "
    "start() and stop()"
)


class WaitTimeoutError(AssertionError):
    """The event that a test waited for has not happened in time; the message shows the present state.

    An AssertionError, so that test runners report a failed test and not a broken one.
    """


class UnexpectedRecordError(AssertionError):
    """A record exists that a test has ruled out; the message shows it."""


for _each in (OperationError, NotFoundError, ConflictError, NotRunningError, WaitTimeoutError, UnexpectedRecordError):
    _each.__module__ = "minibroker"  # where users import them from, and short enough to leave room for the message


class _Caught(Protocol):
    """A `pytest.ExceptionInfo`, as far as it is needed."""

    def errisinstance(self, exc: tuple[type[BaseException], ...]) -> bool:
        """Is the exception of one of these types?"""
        ...


def is_the_callers(caught: _Caught) -> bool:
    """Is the message all that the caller needs?

    Modules between a test and such an error have this as their `__tracebackhide__`: pytest leaves out their lines and
    shows the test's. With any other error it shows them.
    """
    return caught.errisinstance(
        (OperationError, WaitTimeoutError, UnexpectedRecordError, NotRunningError, cluster.ClusterError)
    )
