"""What can go wrong with an operation through the caller's fault."""


class OperationError(ValueError):
    """Something was asked of a broker that it cannot do; the message names what and why."""


class NotFoundError(OperationError):
    """It was asked of something that there is not."""


class ConflictError(OperationError):
    """It cannot be done to a broker as it is now."""


class WaitTimeoutError(AssertionError):
    """Something that a test waited for has not happened in time; the message says what there was instead.

    An AssertionError, so that test runners report a failed test and not a broken one.
    """
