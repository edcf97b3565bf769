"""The version of minibroker, which the wheel is built with."""

__version__ = "0.1.0"
