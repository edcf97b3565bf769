"""Arguments that are given by name, and what is said of others."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from minibroker.suggestions import suggestion

P = ParamSpec("P")
Made = TypeVar("Made")

_MEANT: Final = {
    "address": "listen",
    "bootstrap_servers": "listen",
    "broker": "brokers",
    "data": "data_dir",
    "dir": "data_dir",
    "directory": "data_dir",
    "host": "listen",
    "nodes": "brokers",
    "path": "data_dir",
    "port": "listen",
    "properties": "config",
    "settings": "config",
    "topic": "topics",
}
"""What other libraries call the same."""
_EXAMPLES: Final = {
    "brokers": "3",
    "config": "{'num.partitions': 3}",
    "data_dir": "'data'",
    "listen": "'127.0.0.1:9092'",
    "topics": "['orders']",
}


def by_name(init: Callable[Concatenate[Made, P], None]) -> Callable[Concatenate[Made, P], None]:
    """An `__init__` that takes names alone, and says so: TypeError with the argument that was probably meant."""
    known = list(signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: Made, /, *given: P.args, **named: P.kwargs) -> None:
        kind = type(self).__name__
        if given:
            shown = f"{kind}(listen={given[0]!r})" if isinstance(given[0], str) else f"{kind}(listen='127.0.0.1:9092')"
            raise TypeError(f"{kind} takes its arguments by name, such as {shown}")
        for name, value in named.items():
            if name not in known:
                raise TypeError(f"{kind} has no argument {name!r}{_hint(kind, name, value, known)}")
        init(self, *given, **named)

    return checked


def _hint(kind: str, name: str, value: Any, known: list[str]) -> str:
    meant = _MEANT.get(name)
    if meant is None:
        return suggestion(name, known) or f"; there are {', '.join(known)}"
    if name == "port" and isinstance(value, int):
        return f"; write {kind}(listen='127.0.0.1:{value}')"
    return f"; write {kind}({meant}={_EXAMPLES[meant]})"
