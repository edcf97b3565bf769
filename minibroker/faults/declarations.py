"""What the modules of error answers share: the messages of an API, and the simplest of all answers."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from minibroker_protocol.error_codes import ErrorCode

Answering = Callable[[Any, int, ErrorCode], Any]
"""From a request, its version and an error to the response that says it."""


@cache
def messages_of(module: str) -> Any:
    """The declarations of one API; loaded when an answer of it is first needed."""
    return import_module(f"minibroker_protocol.messages.{module}")


def alone(module: str, response: str, *, with_message: bool = False, **others: Callable[[], Any]) -> Answering:
    """Answers with one error code, and nothing that depends on the request.

    `with_message` adds the sentence that says the error; `others` make the fields that have no default.
    """

    def answer(_request: Any, _version: int, code: ErrorCode) -> Any:
        made: Any = getattr(messages_of(module), response)
        message = {"error_message": code.meaning} if with_message else {}
        return made(error_code=code, **message, **{name: make() for name, make in others.items()})

    return answer
