"""The errors of the registry's HTTP interface, with Confluent's status, code and wording."""

from http import HTTPStatus
from typing import Final

INVALID_SCHEMA: Final = 42201


class RegistryError(Exception):
    """A request failed.

    Attributes:
        status: The HTTP status.
        code: The `error_code`: the status, or a more precise number.
        message: The `message`.
    """

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code
        self.message = message


def not_found(code: int, message: str) -> RegistryError:
    """Return an error of status 404."""
    return RegistryError(404, message, code)


def unprocessable(code: int, message: str) -> RegistryError:
    """Return an error of status 422."""
    return RegistryError(422, message, code)


def plain(status: int) -> RegistryError:
    """Return the error for a request that no endpoint takes."""
    return RegistryError(status, f"HTTP {status} {HTTPStatus(status).phrase}")


def subject_not_found(subject: str) -> RegistryError:
    """Return the error for a subject without versions."""
    return not_found(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    """Return the error for a version that the subject does not have."""
    return not_found(40402, f"Version {version} not found.")


def schema_not_found(name: object = "") -> RegistryError:
    """Return the error for an unknown id or guid, or for a schema that is not registered under a subject."""
    return not_found(40403, f"Schema {name} not found" if name != "" else "Schema not found")


def invalid_version(version: str) -> RegistryError:
    """Return the error for a version that is neither a number in range nor `latest`."""
    return unprocessable(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_subject(subject: str) -> RegistryError:
    """Return the error for a subject that nothing can be kept for."""
    return unprocessable(42208, f"The specified subject '{subject}' is not a valid.")


def too_large() -> RegistryError:
    """Return the error for a schema that is larger than the body of a request or a message of the topic may be."""
    return unprocessable(42209, "Register operation failed because schema is too large")


def not_permitted(message: str) -> RegistryError:
    """Return the error for a change that the mode forbids."""
    return unprocessable(42205, message)


def referenced(subject: str, version: int) -> RegistryError:
    """Return the error for the deletion of a version that other schemas refer to."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return unprocessable(42206, f"One or more references exist to the schema {key}.")
