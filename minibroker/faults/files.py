"""Faults in files: JSON, or YAML where PyYAML is installed.

    {"faults": [{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}, ...]}

The fields are those of `Fault`. A list alone is taken for the list of faults.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from minibroker.faults.fault import Fault, FaultError

_YAML: Final = (".yaml", ".yml")


def read_faults(path: str) -> list[Fault]:
    """The faults of a file. FaultError that names the file, the fault and the field; OSError."""
    with open(path, encoding="utf-8") as file:
        try:
            text = file.read()
        except UnicodeDecodeError as error:
            raise FaultError(f"{path}: not UTF-8: {error.reason}") from None
    data = _yaml(text, path) if path.endswith(_YAML) else _json(text, path)
    return parse_faults(data, path)


def parse_faults(data: object, source: str) -> list[Fault]:
    """The faults of a document that was read from `source`. FaultError."""
    listed = data
    if isinstance(data, Mapping):
        document = cast("Mapping[object, object]", data)
        for name in document:
            if name != "faults":
                raise FaultError(f"{source}: {name!r} is not known; there is faults, a list")
        listed = document.get("faults")
    if not isinstance(listed, list):
        raise FaultError(f"{source}: faults: {listed!r} is not a list")
    return [
        _fault(each, f"{source}: fault {number}") for number, each in enumerate(cast("Sequence[object]", listed), 1)
    ]


def _fault(data: object, source: str) -> Fault:
    if not isinstance(data, Mapping):
        raise FaultError(f"{source}: {data!r} is not a list of fields with values")
    fields = {str(name): value for name, value in cast("Mapping[object, Any]", data).items()}
    try:
        return Fault.from_json(fields)
    except FaultError as error:
        raise FaultError(f"{source}: {error}") from None


def _json(text: str, path: str) -> object:
    try:
        data: object = json.loads(text)
    except ValueError as error:
        raise FaultError(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise FaultError(f"{path}: not faults: nested too deeply") from None
    return data


def _yaml(text: str, path: str) -> object:
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise FaultError(f"{path}: YAML needs the package PyYAML; JSON needs none") from None
    load: Callable[[str], object] = yaml.safe_load
    try:
        return load(text)
    except yaml.YAMLError as error:
        raise FaultError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise FaultError(f"{path}: not faults: nested too deeply") from None
