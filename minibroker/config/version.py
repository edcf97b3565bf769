"""The version of minibroker, used when building the wheel."""

__version__ = "1.0.0"
