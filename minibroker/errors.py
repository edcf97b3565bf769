"""Errors that the caller of an operation has caused, and the choice of the lines that a traceback of one shows."""

from typing import Final, Protocol


class OperationError(ValueError):
    """Something was asked of a broker that it cannot do; the message names what and why."""


class NotFoundError(OperationError):
    """It was asked of something that there is not."""


class ConflictError(OperationError):
    """It cannot be done to a broker as it is now."""


class NotRunningError(RuntimeError):
    """Something was asked of a broker that does not run, or runs on another event loop than the method is for."""


NOT_RUNNING: Final = (
    "the broker is not running: use it inside `with Broker() as broker:` (`async with` for an AsyncBroker), or between "
    "start() and stop()"
)


class WaitTimeoutError(AssertionError):
    """Something that a test waited for has not happened in time; the message says what there was instead.

    An AssertionError, so that test runners report a failed test and not a broken one.
    """


class UnexpectedRecordError(AssertionError):
    """There is a record that a test has ruled out; the message shows it."""


for _each in (OperationError, NotFoundError, ConflictError, NotRunningError, WaitTimeoutError, UnexpectedRecordError):
    _each.__module__ = "minibroker"  # where users import them from, and short enough to leave room for the message


class _Caught(Protocol):
    """A `pytest.ExceptionInfo`, as far as it is needed."""

    def errisinstance(self, exc: tuple[type[BaseException], ...]) -> bool:
        """Is the exception of one of these types?"""
        ...


def is_the_callers(caught: _Caught) -> bool:
    """Does the message say all that the caller needs to know?

    Modules between a test and such an error have this as their `__tracebackhide__`: pytest leaves out their lines and
    shows the test's. With any other error it shows them.
    """
    from minibroker.cluster.cluster import ClusterError  # noqa: PLC0415 - most tests do not fail

    return caught.errisinstance(
        (OperationError, WaitTimeoutError, UnexpectedRecordError, NotRunningError, ClusterError)
    )
