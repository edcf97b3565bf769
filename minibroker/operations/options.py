"""The options of a broker, by name: for `Broker`, `AsyncBroker`, `kafka_factory` and the command line."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature
from types import NoneType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypedDict, TypeVar

from minibroker.config.names import suggestion
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker import clock as clock_module
    from minibroker.security import setup

if TYPE_CHECKING:
    from minibroker.clock import Clock
    from minibroker.security.setup import Security

P = ParamSpec("P")
Made = TypeVar("Made")

Setting = str | int | float | bool | Sequence[str]
"""A value of the configuration, as Python programs write it."""

DEFAULT_LISTEN: Final = "127.0.0.1:0"
DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that methods such as `expect` wait."""


class BrokerOptions(TypedDict, total=False):
    """The options of `Broker` and `AsyncBroker`; each may be left out."""

    listen: str
    """HOST:PORT; port 0 picks a free one. Default: 127.0.0.1:0."""
    data_dir: str | os.PathLike[str] | None
    """The directory of the logs; None for a temporary one that is removed with the broker, or with the program."""
    advertise: str | None
    """The advertised HOST:PORT; None for the address that clients have connected to."""
    config: Mapping[str, Setting] | None
    """Broker configuration under Kafka's own names: texts, numbers, True and False, lists of texts.

    ConfigError for a wrong value, a warning for an unknown name. Addresses and the directory of the logs come from
    the options here.
    """
    topics: Iterable[str]
    """Created at the start unless they exist: "orders", "orders:4" or "orders:4:retention.ms=60000,...".

    TypeError for a single string, ValueError for one that is not of this form.
    """
    seed_data: str | os.PathLike[str] | None
    """A file with topics and records to start with, see docs/seed-data.md.

    ValueError that names the file, the place in it and the field; OSError.
    """
    clock: "Clock | None"
    """The source of time; None for the machine's clock, which `broker.clock` can move."""
    brokers: int | None
    """The number of brokers, as in a Kafka cluster. Default: as many as there are racks, or 1.

    Each listens on a port of its own (those after the port of `listen`, and of `advertise`, or free ones), and their
    node ids count up from `node.id`.
    """
    racks: Iterable[str | None]
    """`broker.rack` of each broker, in their order; None for that of `config`.

    TypeError for a single string, ValueError unless there are as many as `brokers`.
    """
    also_listen: Iterable[str]
    """Further addresses in plaintext, HOST:PORT or HOST:PORT=ADVERTISED.

    Clients that connect there get ADVERTISED (HOST:PORT), else the address that they have connected to.
    """
    listeners: str | None
    """Kafka's list NAME://HOST:PORT,..., in the place of `listen` and `advertise`, see docs/security.md.

    `config` describes them (listener.security.protocol.map, advertised.listeners, listener.name.*).
    """
    security: "Security | None"
    """TLS, passwords or both, for `listen`: a `minibroker.Security`."""
    journal: bool | int
    """Whether `requests` keeps the requests of clients with their responses; a number keeps the newest so many."""
    control: str | None
    """HOST:PORT for the HTTP control plane (docs/control-plane.md), which takes the extra `control`.

    Port 0 picks a free one, which `control_url` names.
    """
    control_token: str | None
    """The token that requests to the control plane need; required unless `control` is a loopback address.

    The page needs the same one.
    """
    page: bool | str | None
    """Whether the lab's web page is served (docs/lab.md), or HOST:PORT for it. It takes the extra `lab`.

    True, and port 0, pick a free port of the loopback interface, which `page_url` names. `control_token` is its token.
    """
    timeout: float
    """Seconds that methods such as `expect` wait without a `timeout` of their own. Default: 10. ValueError below 0."""


_TYPES: Final[Mapping[str, Any]] = BrokerOptions.__annotations__

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
    "rack": "racks",
    "settings": "config",
    "topic": "topics",
}
"""Names that other libraries use for the same."""
_TEXT: Final = (str, NoneType)
_PATH: Final = (str, os.PathLike, NoneType)
_FORMS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "advertise": (_TEXT, "'broker.test:9092'"),
    "also_listen": ((Iterable,), "['127.0.0.1:9093']"),
    "brokers": ((), "3"),
    "clock": ((), "ManualClock()"),
    "config": ((Mapping, NoneType), "{'num.partitions': 3}"),
    "control": (_TEXT, "'127.0.0.1:0'"),
    "control_token": (_TEXT, "'secret'"),
    "data_dir": (_PATH, "'data'"),
    "journal": ((int,), "1000"),
    "listen": ((str,), "'127.0.0.1:9092'"),
    "listeners": (_TEXT, "'PLAINTEXT://127.0.0.1:9092'"),
    "page": ((bool, str, NoneType), "True"),
    "racks": ((Iterable,), "['a', 'b', 'c']"),
    "seed_data": (_PATH, "'seeds.json'"),
    "timeout": ((int, float), "10"),
    "topics": ((Iterable,), "['orders']"),
}
"""By option, the classes of its values, and an example. Other code checks the values of options without classes."""


class _LeftOut:
    """The default of an option in a signature; its description names the value."""

    def __repr__(self) -> str:
        return "..."


_LEFT_OUT: Final = _LeftOut()


def by_name(init: Callable[Concatenate[Made, P], None]) -> Callable[Concatenate[Made, P], None]:
    """An `__init__` that takes `BrokerOptions` alone; its signature lists them.

    TypeError names another option, and the one that was probably meant.
    """

    @wraps(init)
    def checked(self: Made, /, *given: P.args, **named: P.kwargs) -> None:
        kind = type(self).__name__
        if given:
            shown = f"{kind}(listen={given[0]!r})" if isinstance(given[0], str) else f"{kind}(listen='127.0.0.1:9092')"
            raise TypeError(f"{kind} takes its arguments by name, such as {shown}")
        for name, value in named.items():
            if name not in _TYPES:
                raise TypeError(f"{kind} has no argument {name!r}{_hint(kind, name, value)}")
            _check_class(kind, name, value)
        init(self, *given, **named)

    receiver = Parameter("self", Parameter.POSITIONAL_ONLY)
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=_LEFT_OUT, annotation=getattr(each, "__forward_arg__", each))
        for name, each in _TYPES.items()
    ]
    vars(checked)["__signature__"] = Signature([receiver, *options], return_annotation=None)
    return checked


def _check_class(kind: str, name: str, value: object) -> None:
    """Raise TypeError for a value of another class than the option takes, with an example."""
    if name == "security" and value is not None:
        _check_security(kind, value)
    elif name == "clock" and value is not None:
        if not isinstance(value, clock_module.Clock):
            raise TypeError(f"clock: {value!r} is not a Clock; write {kind}(clock={_FORMS[name][1]})")
    elif name in ("topics", "also_listen", "racks") and isinstance(value, str):
        raise TypeError(f"{name}: {value!r} is a string; give a list, such as [{value!r}]")
    elif name in _FORMS and (classes := _FORMS[name][0]) and not isinstance(value, classes):
        given = f"a value of type {type(value).__name__}" if name == "control_token" else repr(value)
        raise TypeError(f"{name}: {given} is not possible; write {kind}({name}={_FORMS[name][1]})")


def _check_security(kind: str, value: object) -> None:
    if isinstance(value, setup.Security):
        return
    protocol = value.upper() if isinstance(value, str) and value.upper() in setup.SECURE_PROTOCOLS else "SASL_SSL"
    users = ", users={'alice': 'secret'}" if protocol.startswith("SASL") else ""
    raise TypeError(
        f"security: {value!r} is not a minibroker.Security; write {kind}(security=Security({protocol!r}{users})). Its "
        f"protocol is one of {', '.join(setup.SECURE_PROTOCOLS)}; for PLAINTEXT leave `security` out"
    )


def _hint(kind: str, name: str, value: Any) -> str:
    meant = _MEANT.get(name)
    if meant is None:
        return suggestion(name, _TYPES) or f"; there are {', '.join(_TYPES)}"
    if name == "port" and isinstance(value, int):
        return f"; write {kind}(listen='127.0.0.1:{value}')"
    return f"; write {kind}({meant}={_FORMS[meant][1]})"
