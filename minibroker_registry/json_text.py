"""JSON text, read and printed as Confluent's registry does with Jackson."""

import hashlib
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

from minibroker_registry.schema import InvalidSchemaError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | Decimal | bool | None"
"""A JSON value, with a Decimal for each number that has a fraction or an exponent."""

MAX_CHARACTERS: Final = 1_000_000
"""The longest text of a schema. Confluent's clients send at most 1 MB."""
MAX_VALUES: Final = 100_000
"""The most values of a schema, counted by commas and brackets. Each would be an object for the garbage collector."""
MAX_DEPTH: Final = 200
"""The deepest nesting of arrays and objects."""

_MIN_PLAIN: Final = 1e-3
_MAX_PLAIN: Final = 1e7
"""Java prints doubles from the one to the other without an exponent."""
_SHORT_ESCAPES: Final = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(32)} | _SHORT_ESCAPES
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def load(text: str) -> Json:
    """Return the value of a JSON text.

    Raises:
        InvalidSchemaError: the text is no JSON, too long or nested too deeply.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidSchemaError(f"The schema has {len(text)} characters, more than {MAX_CHARACTERS}")
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise InvalidSchemaError(f"The schema has more than {MAX_VALUES} values")
    try:
        value: Json = json.loads(text, parse_float=Decimal, parse_constant=refuse_constant)
    except RecursionError:
        raise InvalidSchemaError(f"The JSON is nested more than {MAX_DEPTH} levels deep") from None
    except (ValueError, ArithmeticError) as error:
        raise InvalidSchemaError(f"The schema is not JSON: {error}") from None
    return value


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which JSON does not have.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{name} is not JSON")


def dump(value: Json, print_number: Callable[[Decimal], str], *, sort_keys: bool = False) -> str:
    """Return a value as JSON without white space.

    Args:
        value: The value, as load() returns it.
        print_number: Returns the text of a number that has a fraction or an exponent.
        sort_keys: Whether the keys of objects are sorted.

    Raises:
        InvalidSchemaError: the value is nested too deeply, or a string holds half of a surrogate pair.
    """

    def text_of(value: Json, depth: int) -> str:
        if isinstance(value, str):
            return f'"{value.translate(_ESCAPES)}"'
        if isinstance(value, Decimal):
            return print_number(value)
        if not isinstance(value, dict | list):
            return "null" if value is None else str(value).lower()
        if depth > MAX_DEPTH:
            raise InvalidSchemaError(f"The schema is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, list):
            return f"[{','.join([text_of(element, depth + 1) for element in value])}]"
        keys = sorted(value) if sort_keys else value
        members = [f'"{key.translate(_ESCAPES)}":{text_of(value[key], depth + 1)}' for key in keys]
        return f"{{{','.join(members)}}}"

    text = text_of(value, 1)
    if not text.isascii() and _SURROGATE.search(text):
        raise InvalidSchemaError("A string of the schema holds half of a surrogate pair")
    return text


def big_decimal(number: Decimal) -> str:
    """Return a number as Java's BigDecimal prints it, with the digits that were written."""
    return str(number or number.copy_abs())


def digest_of(value: Json, known: dict[int, str]) -> str:
    """Return a digest of a JSON value, which is equal for values that differ in the order of keys only.

    Args:
        value: The value.
        known: The digests of arrays and objects by identity, which is filled.
    """
    if not isinstance(value, dict | list):
        return dump(value, big_decimal)
    if id(value) not in known:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        parts = {key: digest_of(element, known) for key, element in items}
        text = json.dumps([type(value).__name__, parts], sort_keys=True)
        known[id(value)] = hashlib.sha256(text.encode()).hexdigest()
    return known[id(value)]


def java_double(number: Decimal | float) -> str:
    """Return a number as Java's Double prints it. Jackson writes those that are not finite as strings."""
    value = float(number)
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if not value or _MIN_PLAIN <= abs(value) < _MAX_PLAIN:
        return repr(value)
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"
