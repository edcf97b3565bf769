"""The version of minibroker, which is also the version of the wheel."""

__version__ = "1.1.0"
