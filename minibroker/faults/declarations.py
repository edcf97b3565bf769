"""Where the modules of error answers have the messages from."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def messages_of(module: str) -> Any:
    """The declarations of one API; loaded when an answer of it is first needed."""
    return import_module(f"minibroker_protocol.messages.{module}")
