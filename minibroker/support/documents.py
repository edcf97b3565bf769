"""Files that people write for a broker: JSON, or YAML where PyYAML is installed. What is in them is for others."""

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_YAML: Final = (".yaml", ".yml")


def read_text(path: str) -> str:
    """A file in UTF-8. ValueError that names it; OSError."""
    with open(path, encoding="utf-8-sig") as file:
        try:
            return file.read()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8: {error.reason}") from None


def read_document(path: str, form: str) -> object:
    """The document in a file, which is YAML if its name says so, else JSON. ValueError that names it; OSError.

    `what` is what should be in it, for a document that has no end.
    """
    text = read_text(path)
    try:
        return _yaml(text, path) if path.endswith(_YAML) else parse_json(text, path)
    except RecursionError:
        raise ValueError(f"{path}: not {form}: nested too deeply") from None


def parse_json(text: str, source: str) -> object:
    """A JSON document. ValueError that names `source`; RecursionError."""
    try:
        data: object = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{source}: not JSON: {error}") from None
    return data


def _yaml(text: str, path: str) -> object:
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise ValueError(f"{path}: YAML needs the package PyYAML: pip install pyyaml. JSON needs no package") from None
    load: Callable[[str], object] = yaml.safe_load
    try:
        return load(text)
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-13-01 is a ValueError
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
