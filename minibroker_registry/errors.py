"""The errors of the registry's HTTP interface, with Confluent's status, code and wording."""

from http import HTTPStatus
from typing import Final

INVALID_SCHEMA: Final = 42201


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


def plain(status: int) -> RegistryError:
    """Return the error for a request that no endpoint takes."""
    return RegistryError(status, f"HTTP {status} {HTTPStatus(status).phrase}")


def subject_not_found(subject: str) -> RegistryError:
    """Return the error for a subject without versions."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    """Return the error for a version that the subject does not have."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(name: object = "") -> RegistryError:
    """Return the error for an unknown id or guid, or for a schema that is not registered under a subject."""
    return RegistryError(40403, f"Schema {name} not found" if name != "" else "Schema not found")


def invalid_version(version: str) -> RegistryError:
    """Return the error for a version that is neither a number in range nor `latest`."""
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_subject(subject: str) -> RegistryError:
    """Return the error for a subject that nothing can be kept for."""
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def too_large() -> RegistryError:
    """Return the error for a schema that is larger than the body of a request or a message of the topic may be."""
    return RegistryError(42209, "Register operation failed because schema is too large")


def not_permitted(message: str) -> RegistryError:
    """Return the error for a change that the mode forbids."""
    return RegistryError(42205, message)


def referenced(subject: str, version: int) -> RegistryError:
    """Return the error for the deletion of a version that other schemas refer to."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(42206, f"One or more references exist to the schema {key}.")
