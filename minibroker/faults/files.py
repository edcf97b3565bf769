"""Faults in files: JSON, or YAML where PyYAML is installed.

    {"faults": [{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}, ...]}

The fields are those of `Fault`. A list alone is taken for the list of faults.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from minibroker.config.documents import read_document
from minibroker.faults.fault import Fault, FaultError


def read_faults(path: str) -> list[Fault]:
    """The faults of a file. FaultError that names the file, the fault and the field; OSError."""
    try:
        data = read_document(path)
    except ValueError as error:
        raise FaultError(str(error)) from None
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
