"""Checks data against a JSON Schema with the library jsonschema, in bounded time.

The library matches patterns with Python's `re`, which may take exponential time. So the keyword `pattern` is replaced,
and before each check `patternProperties` become `properties` for the names that the value has.
"""

import functools
import itertools
import json
from collections.abc import Callable, Container, Iterator
from decimal import Decimal
from typing import Any, Final, TypeAlias

import jsonschema
import jsonschema.validators
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs] # it ships none
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from minibroker_registry.json_differences import is_multiple
from minibroker_registry.json_nodes import DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020, Documents
from minibroker_registry.json_patterns import is_found
from minibroker_registry.json_text import Json
from minibroker_registry.schema import Deadline

_Errors: TypeAlias = Iterator[jsonschema.ValidationError]
_Check: TypeAlias = Callable[[Any, Any, Any, Any], _Errors | None]
"""A keyword's check: of a validator, the keyword's value, the instance and the schema."""

_CLASSES: Final = {
    DRAFT_4: jsonschema.Draft4Validator,
    DRAFT_6: jsonschema.Draft6Validator,
    DRAFT_7: jsonschema.Draft7Validator,
    DRAFT_2019: jsonschema.Draft201909Validator,
    DRAFT_2020: jsonschema.Draft202012Validator,
}
_MAX_SHOWN_CHARACTERS: Final = 200


class Validator:
    """Checks values against a schema.

    Args:
        documents: The schema, and what it refers to.
        schemas: The identities of all objects in the documents that serve as schemas.
    """

    def __init__(self, documents: Documents, schemas: Container[int]) -> None:
        self._documents = documents
        self._schemas = schemas
        self._deadline = Deadline()
        base = _CLASSES[documents.draft]
        checks: dict[str, _Check] = {
            **base.VALIDATORS,
            "multipleOf": _check_multiple,
            "pattern": _check_pattern,
            "uniqueItems": _check_unique,
        }
        limited = {keyword: self._limit(check) for keyword, check in checks.items()}
        self._class: Any = jsonschema.validators.extend(base, limited)  # pyright: ignore[reportUnknownMemberType] # untyped
        self._make = functools.lru_cache(1)(self._build)
        self._specification = specification_with(base.META_SCHEMA.get("$id") or base.META_SCHEMA["id"])

    def check(self, value: object, size: int) -> None:
        """Check a value, whose JSON has a size in bytes.

        Raises:
            ValueError: The value is not valid, or the check takes too much work. The message says where and why.
        """
        self._deadline = Deadline(size)
        names = frozenset(_names_in(value) if self._has_patterns else ())
        try:
            error = next(self._make(names).iter_errors(value), None)
        except (Unresolvable, TypeError, AttributeError) as reason:
            raise ValueError(f"The schema cannot be applied: {reason}") from None
        except BaseException as reason:
            # The library's maps are written in Rust. A RecursionError within them becomes a panic.
            if not isinstance(reason, RecursionError) and type(reason).__name__ != "PanicException":
                raise
            raise ValueError("The value or the schema is nested too deeply to check") from None
        if error is not None:
            raise ValueError(f"{error.json_path}: {_shorten(error.message)}")

    def _limit(self, check: _Check) -> _Check:
        """Return a check that also ends when the time is over."""

        def run(validator: Any, keyword: Any, instance: Any, schema: Any) -> _Errors | None:
            self._deadline.check()
            return check(validator, keyword, instance, schema)

        return run

    @functools.cached_property
    def _has_patterns(self) -> bool:
        return any("patternProperties" in _names_in(document) for document in self._documents.resources.values())

    def _build(self, names: frozenset[str]) -> Any:
        """Return the library's validator for values with these names in objects."""
        resources = {
            uri: self._specification.create_resource(self._prepare(document, names))
            for uri, document in self._documents.resources.items()
            if uri
        }
        root = self._prepare(self._documents.resources[""], names)
        return self._class(root, registry=REGISTRY.with_resources(resources.items()))

    def _prepare(self, value: Json, names: frozenset[str]) -> Any:
        """Return a part of the schema as the library gets it.

        It has Python's floats, no `$schema`, by which the library would choose other checks, and no patterns of names.
        """
        if isinstance(value, Decimal):
            return float(value)
        if isinstance(value, list):
            return [self._prepare(element, names) for element in value]
        if not isinstance(value, dict):
            return value
        prepared = {key: self._prepare(child, names) for key, child in value.items()}
        if id(value) in self._schemas or "$dynamicAnchor" in value:
            prepared.pop("$schema", None)
            patterns = prepared.pop("patternProperties", None)
            if patterns is not None:
                prepared["properties"] = self._expand(patterns, prepared.get("properties"), names)
        return prepared

    def _expand(self, patterns: Any, properties: Any, names: frozenset[str]) -> dict[str, Any]:
        """Return `properties` with a schema for each name that a pattern matches."""
        expanded: dict[str, Any] = {**properties} if properties else {}
        for name, (pattern, schema) in itertools.product(names, patterns.items()):
            self._deadline.check()
            if is_found(pattern, name):
                expanded[name] = {"allOf": [schema, expanded[name]]} if name in expanded else schema
        return expanded


def _shorten(message: str) -> str:
    """Return a message without the middle if it is long. The library's messages begin with the whole value."""
    if len(message) <= 2 * _MAX_SHOWN_CHARACTERS:
        return message
    return f"{message[:_MAX_SHOWN_CHARACTERS]} ... {message[-_MAX_SHOWN_CHARACTERS:]}"


def _names_in(value: object) -> Iterator[str]:
    """Yield the names in all objects of a value."""
    waiting = [value]
    while waiting:
        member = waiting.pop()
        if isinstance(member, dict):
            yield from member
            waiting += member.values()
        elif isinstance(member, list):
            waiting += member


def _check_pattern(validator: Any, pattern: str, instance: Any, _: Any) -> _Errors:
    if validator.is_type(instance, "string") and not is_found(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _check_multiple(validator: Any, divisor: Any, instance: Any, _: Any) -> _Errors:
    """Check a number in decimal arithmetic, as Java does. In binary, 1.13 is no multiple of 0.01."""
    if validator.is_type(instance, "number") and not is_multiple(Decimal(repr(instance)), Decimal(repr(divisor))):
        yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {divisor!r}")


def _check_unique(validator: Any, is_demanded: Any, instance: Any, _: Any) -> _Errors:
    """Check for equal items in linear time."""
    if is_demanded and validator.is_type(instance, "array"):
        keys = {
            json.dumps(item, sort_keys=True) if isinstance(item, dict | list) else (isinstance(item, bool), item)
            for item in instance
        }
        if len(keys) < len(instance):
            yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")
