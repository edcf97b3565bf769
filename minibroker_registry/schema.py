"""What the registry expects of a schema format.

Each format has a module with a function `parse(text, references, *, is_new=True)`, which returns a `Parsed`, or raises
InvalidSchemaError if the text is not valid or a reference is missing.

The argument `references` maps the name of each reference to its text. A name is the full name in Avro, the URI of
`$ref` in JSON Schema, and the import path in Protobuf. References of references are included, dependencies first.

With `is_new=False` the schema comes from the topic. Mistakes that are refused in new schemas only, such as an Avro
default of the wrong type, are accepted then.
"""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

CPU_SECONDS: Final = 0.5
"""The CPU time for reading a schema, or for comparing two."""
_CPU_SECONDS_PER_BYTE: Final = 5e-6
"""The additional time for each byte of data that is checked."""
_FREE_CHECKS: Final = 1000
"""The number of checks without a limit. A garbage collection can take longer than a small schema may."""


class InvalidSchemaError(ValueError):
    """A schema's text is not valid. The message names what is wrong, and where."""


class TooMuchWorkError(ValueError):
    """A comparison or a check has taken too much CPU time."""


class Deadline:
    """The limit for what the current thread does from here on, in CPU time.

    Args:
        data_bytes: The size of the data, if data is checked.
        error: The error to raise.
    """

    def __init__(self, data_bytes: int = 0, error: type[ValueError] = TooMuchWorkError) -> None:
        self._error = error
        self._seconds = CPU_SECONDS + data_bytes * _CPU_SECONDS_PER_BYTE
        self._end = time.thread_time() + self._seconds
        self._checks = 0

    def check(self) -> None:
        """Raise the error if the time is over."""
        self._checks += 1
        if self._checks > _FREE_CHECKS and time.thread_time() > self._end:
            raise self._error(f"It takes too much work: more than {self._seconds:.1f} seconds of CPU time")


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in a schema's text that another subject's schema defines."""

    name: str
    subject: str
    version: int


class Parsed(ABC):
    """A parsed schema. It is immutable.

    Attributes:
        canonical: The text that is stored, which decides whether two schemas are the same.
        normalized: The text that is stored for `normalize=true`.
    """

    canonical: str
    normalized: str

    def formatted(self, form: str) -> str:  # noqa: ARG002 - for the formats that have forms
        """Return the text in a form: `resolved` in Avro, `serialized` in Protobuf, or else the canonical text."""
        return self.canonical

    @abstractmethod
    def record_name(self, payload: bytes) -> str | None:
        """Return the name by which RecordNameStrategy finds the subject of a payload, or None if there is none."""

    @abstractmethod
    def field_names(self) -> set[str]:
        """Return the names of the fields of the outermost type, or of all outermost messages."""

    @abstractmethod
    def incompatibilities(self, writer: "Parsed", *, lenient: bool = False) -> list[str]:
        """Return why a reader with this schema cannot read data of `writer`, which has the same format.

        Args:
            writer: The schema that the data is written with.
            lenient: Whether JSON Schema's open content models may be narrowed (`compatibilityPolicy`).

        Returns:
            A sentence for each reason, and none if the schemas are compatible.
        """

    @abstractmethod
    def decode(self, payload: bytes, *, with_branches: bool = False) -> object:
        """Return the value of a payload, which follows the magic byte and the id, in the types of JSON.

        Args:
            payload: The payload.
            with_branches: Whether a value of a union in Avro that is not null is an object with the name of its branch,
                as command line tools print it: `{"string": "x"}`.

        Raises:
            ValueError: the payload is not data of this schema.
        """

    @abstractmethod
    def encode(self, value: object, message: str | None = None) -> bytes:
        """Return the payload of a value, without the magic byte and the id.

        Args:
            value: The value.
            message: The name of the message in a Protobuf schema. It is the first one by default.

        Raises:
            ValueError: the value does not fit the schema. The message names the field and the value.
        """
