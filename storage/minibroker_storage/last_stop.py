"""The way a log was closed."""

from enum import Enum


class LastStop(Enum):
    """The way a log was closed, which decides which of its files can be trusted."""

    CLEAN = "clean"
    """It was closed: all is there."""
    KILLED = "killed"
    """The process died and the machine ran on: what was written before the last write is whole."""
    CRASHED = "crashed"
    """The machine died: what was flushed is there, below the recovery point. Right for an unknown stop, too."""
