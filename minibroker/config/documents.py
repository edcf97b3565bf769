"""Reads files that users write for a broker: JSON, or YAML if PyYAML is installed.

Interpreting the content is left to the callers.
"""

import json
from importlib import import_module
from typing import Any, Final

_YAML: Final = (".yaml", ".yml")
MAX_JSON_DEPTH: Final = 200
"""The maximum nesting of arrays and objects. Code that encodes or compares values recurses a few calls per level."""


def read_text(path: str) -> str:
    """Return the text of a file in UTF-8.

    Raises:
        ValueError: The file is not UTF-8. The message names the file.
        OSError: The file cannot be read.
    """
    with open(path, encoding="utf-8-sig") as file:
        try:
            return file.read()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8: {error.reason}") from None


def read_document(path: str) -> object:
    """Read the document in a file: YAML if the file's extension says so, otherwise JSON.

    Raises:
        ValueError: The document is invalid. The message names the file.
        OSError: The file cannot be read.
    """
    text = read_text(path)
    if path.endswith(_YAML):
        return _parse_yaml(text, path)
    try:
        return parse_json(text, path)
    except ValueError as error:
        advice = "" if path.endswith(".json") else f"; a file of YAML ends in {' or '.join(_YAML)}"
        raise ValueError(f"{error}{advice}") from None


def parse_json(text: str | bytes, source: str) -> object:
    """Parse an untrusted JSON document.

    Raises:
        ValueError: The text is not JSON, or nested deeper than `MAX_JSON_DEPTH`. The message begins with `source`.
    """
    try:
        data: object = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{source}: not JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{source}: nested too deeply") from None
    brackets = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if brackets > MAX_JSON_DEPTH and _is_deeper(data, MAX_JSON_DEPTH):
        raise ValueError(f"{source}: nested too deeply")
    return data


def _is_deeper(data: object, depth: int) -> bool:
    level = [data]
    for _ in range(depth):
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        ]
    return bool(level)


def _parse_yaml(text: str, path: str) -> object:
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise ValueError(f"{path}: YAML needs the package PyYAML: pip install pyyaml. JSON needs no package") from None
    try:
        document: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # PyYAML raises ValueError for an invalid date such as 2026-13-01.
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None
    return document
