"""The errors of the registry's HTTP interface, with Confluent's status, code and wording."""

from http import HTTPStatus
from typing import Final

INVALID_SCHEMA: Final = 42201
_MESSAGES: Final = {
    40401: "Subject '{}' not found.",
    40402: "Version {} not found.",
    40403: "Schema {} not found",
    40404: "Subject '{}' was soft deleted.Set permanent=true to delete permanently",
    40405: "Subject '{}' was not deleted first before being permanently deleted",
    40406: "Subject '{}' Version {} was soft deleted.Set permanent=true to delete permanently",
    40407: "Subject '{}' Version {} was not deleted first before being permanently deleted",
    40408: "Subject '{}' does not have subject-level compatibility configured",
    40409: "Subject '{}' does not have subject-level mode configured",
    42202: "The specified version '{}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
    'the string "latest"',
    42203: "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
    "forward_transitive, and full_transitive",
    42206: "One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={},version={}}}.",
    42208: "The specified subject '{}' is not a valid.",
    42209: "Register operation failed because schema is too large",
    42211: "The specified context '{}' is not empty.",
}
"""The messages of codes that have one each. In place of `{}` stands what was asked for."""


class RegistryError(Exception):
    """A request failed.

    Attributes:
        code: The `error_code`: the HTTP status, or a longer number that begins with it.
        message: The `message`. Halves of surrogate pairs, which UTF-8 cannot hold, are written as escapes.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message.encode(errors="backslashreplace").decode()

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(str(self.code)[:3])


def refusal(code: int, *values: object) -> RegistryError:
    """Return the error with a code and its usual message."""
    message = _MESSAGES[code].format(*values) if code in _MESSAGES else f"HTTP {code} {HTTPStatus(code).phrase}"
    return RegistryError(code, message)
