"""The version of minibroker, which the wheel is built with."""

__version__ = "1.0.0"
