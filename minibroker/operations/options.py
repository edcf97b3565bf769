"""The options of a broker by name, for `Broker`, `AsyncBroker`, `kafka_factory` and the command line."""

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
Instance = TypeVar("Instance")

Setting = str | int | float | bool | Sequence[str]
"""A configuration value as Python programs write it."""

DEFAULT_LISTEN: Final = "127.0.0.1:0"
DEFAULT_TIMEOUT: Final = 10.0
"""Default timeout of methods such as `expect`, in seconds."""


class BrokerOptions(TypedDict, total=False):
    """The options of `Broker` and `AsyncBroker`, all of them optional."""

    listen: str
    """HOST:PORT; port 0 picks a free port. Default: 127.0.0.1:0."""
    data_dir: str | os.PathLike[str] | None
    """The directory of the logs, or None for a temporary one that is removed with the broker or at exit."""
    advertise: str | None
    """The advertised HOST:PORT, or None for the address that each client connected to."""
    config: Mapping[str, Setting] | None
    """Broker configuration with Kafka's own names. Values are strings, numbers, booleans and lists of strings.

    An invalid value raises ConfigError, and an unknown name issues a warning. Addresses and the log directory are set
    by the options here instead.
    """
    topics: Iterable[str]
    """Topics created at start-up unless they exist: "orders", "orders:4" or "orders:4:retention.ms=60000,...".

    A single string raises TypeError, and any other form raises ValueError.
    """
    seed_data: str | os.PathLike[str] | None
    """A file with initial topics and records, see docs/seed-data.md.

    An invalid file raises ValueError with the file, the position in it and the field; an unreadable one raises OSError.
    """
    chaos: int | str | None
    """The seed of chaos from the start on (docs/chaos.md), or "SEED:PROFILE".

    The broker then has three brokers, a default replication factor of 3 and `min.insync.replicas` 2, unless other
    options say otherwise.
    """
    clock: "Clock | None"
    """The source of time, or None for the machine's clock, which `broker.clock` can advance."""
    brokers: int | None
    """The number of brokers, as in a Kafka cluster. Default: the number of racks, or 1.

    Each broker listens on its own port: those after the port of `listen` (and of `advertise`), or free ones. Node ids
    count up from `node.id`.
    """
    racks: Iterable[str | None]
    """`broker.rack` of each broker, in order. None means the value in `config`.

    A single string raises TypeError, and a number of racks that differs from `brokers` raises ValueError.
    """
    also_listen: Iterable[str]
    """Additional plaintext listeners, as HOST:PORT or HOST:PORT=ADVERTISED.

    Their clients get ADVERTISED (HOST:PORT), or else the address they connected to.
    """
    listeners: str | None
    """Kafka's list NAME://HOST:PORT,..., which replaces `listen` and `advertise`, see docs/security.md.

    `config` describes these listeners (listener.security.protocol.map, advertised.listeners, listener.name.*).
    """
    security: "Security | None"
    """TLS, passwords or both for `listen`, as a `minibroker.Security`."""
    journal: bool | int
    """Whether `requests` keeps the requests of clients with their responses. A number limits how many are kept."""
    check: bool
    """Whether the broker keeps from the start what clients do, for `broker.check` (docs/checks.md)."""
    control: str | None
    """HOST:PORT for the HTTP control plane (docs/control-plane.md), which needs the extra `control`.

    Port 0 picks a free port; `control_url` has it.
    """
    control_token: str | None
    """The token that requests to the control plane and the page need.

    It is required unless `control` is a loopback address.
    """
    page: bool | str | None
    """Whether the lab's web page is served (docs/lab.md), or HOST:PORT for it. It needs the extra `lab`.

    True and port 0 pick a free loopback port; `page_url` has it. The page uses `control_token` as its token.
    """
    registry: bool | str | None
    """Whether a schema registry is served (docs/registry.md), or HOST:PORT for it. It needs the extra `registry`.

    True and port 0 pick a free loopback port; `registry_url` has it. With `https://HOST:PORT` it uses the certificate
    of the first listener with TLS.
    """
    timeout: float
    """Default timeout of methods such as `expect`, in seconds. Default: 10. A negative value raises ValueError."""


_TYPES: Final[Mapping[str, Any]] = BrokerOptions.__annotations__

_ALIASES: Final = {
    **dict.fromkeys(("broker", "nodes"), "brokers"),
    **dict.fromkeys(("properties", "settings"), "config"),
    **dict.fromkeys(("data", "dir", "directory", "path"), "data_dir"),
    **dict.fromkeys(("address", "bootstrap_servers", "host", "port"), "listen"),
    "rack": "racks",
    "schema_registry": "registry",
    "topic": "topics",
}
"""The options that correspond to names used by other libraries."""
_FIRST_PORT: Final = 1024
"""Smaller numbers without a name are taken for a number of brokers."""
_TEXT: Final = (str, NoneType)
_PATH: Final = (str, os.PathLike, NoneType)
_VALUE_FORMS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "advertise": (_TEXT, "'broker.test:9092'"),
    "also_listen": ((Iterable,), "['127.0.0.1:9093']"),
    "brokers": ((), "3"),
    "chaos": ((int, str, NoneType), "7"),
    "check": ((bool,), "True"),
    "clock": ((), "ManualClock()"),
    "config": ((Mapping, NoneType), "{'num.partitions': 3}"),
    "control": (_TEXT, "'127.0.0.1:0'"),
    "control_token": (_TEXT, "'secret'"),
    "data_dir": (_PATH, "'data'"),
    "journal": ((int,), "True"),
    "listen": ((str,), "'127.0.0.1:9092'"),
    "listeners": (_TEXT, "'PLAINTEXT://127.0.0.1:9092'"),
    "page": ((bool, str, NoneType), "True"),
    "racks": ((Iterable,), "['a', 'b', 'c']"),
    "registry": ((bool, str, NoneType), "True"),
    "seed_data": (_PATH, "'seeds.json'"),
    "timeout": ((int, float), "10"),
    "topics": ((Iterable,), "['orders']"),
}
"""The accepted classes and an example for each option. Options without classes are checked elsewhere."""


class _Default:
    """The default of an option in a signature. The option's description names the actual default."""

    def __repr__(self) -> str:
        return "..."


_DEFAULT: Final = _Default()


def accept_options_by_name(init: Callable[Concatenate[Instance, P], None]) -> Callable[Concatenate[Instance, P], None]:
    """Return an `__init__` whose only arguments are those in `BrokerOptions`, and whose signature lists them.

    For an unknown option it raises TypeError, and suggests the option that was probably meant.
    """

    @wraps(init)
    def checked(self: Instance, /, *given: P.args, **named: P.kwargs) -> None:
        kind = type(self).__name__
        if given:
            first = given[0]
            address = first if isinstance(first, str) else "127.0.0.1:9092"
            meant = f"brokers={first}" if type(first) is int and first < _FIRST_PORT else f"listen={address!r}"
            raise TypeError(f"{kind} takes its arguments by name, such as {kind}({meant})")
        for name, value in named.items():
            if name not in _TYPES:
                raise TypeError(f"{kind} has no argument {name!r}{_suggest_option(kind, name, value)}")
            _check_class(kind, name, value)
        init(self, *given, **named)

    receiver = Parameter("self", Parameter.POSITIONAL_ONLY)
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=_DEFAULT, annotation=getattr(hint, "__forward_arg__", hint))
        for name, hint in _TYPES.items()
    ]
    vars(checked)["__signature__"] = Signature([receiver, *options], return_annotation=None)
    return checked


def _check_class(kind: str, name: str, value: object) -> None:
    """Check the class of an option's value.

    Raises:
        TypeError: the option does not accept the class; the message gives an example.
    """
    if name == "security" and value is not None:
        _check_security(kind, value)
    elif name == "clock" and value is not None:
        if not isinstance(value, clock_module.Clock):
            raise TypeError(f"clock: {value!r} is not a Clock; write {kind}(clock={_VALUE_FORMS[name][1]})")
    elif name in ("topics", "also_listen", "racks") and isinstance(value, str):
        raise TypeError(f"{name}: {value!r} is a string; give a list, such as [{value!r}]")
    elif name in _VALUE_FORMS and (classes := _VALUE_FORMS[name][0]) and not isinstance(value, classes):
        shown = "the value" if name == "control_token" else repr(value)
        example = _VALUE_FORMS[name][1]
        raise TypeError(f"{name}: {shown} is of type {type(value).__name__}; write {kind}({name}={example})")


def _check_security(kind: str, value: object) -> None:
    if isinstance(value, setup.Security):
        return
    protocol = value.upper() if isinstance(value, str) and value.upper() in setup.SECURE_PROTOCOLS else "SASL_SSL"
    users = ", users={'alice': 'secret'}" if protocol.startswith("SASL") else ""
    raise TypeError(
        f"security: {value!r} is not a minibroker.Security; write {kind}(security=Security({protocol!r}{users})). Its "
        f"protocol is one of {', '.join(setup.SECURE_PROTOCOLS)}; for PLAINTEXT leave `security` out"
    )


def _suggest_option(kind: str, name: str, value: Any) -> str:
    meant = _ALIASES.get(name)
    if name in ("emulate", "version", "kafka_version"):
        return f"; write {kind}(config={{'minibroker.emulate': '3.9'}})"
    if meant is None:
        return suggestion(name, _TYPES) or f"; there are {', '.join(_TYPES)}"
    if name == "port" and isinstance(value, int):
        return f"; write {kind}(listen='127.0.0.1:{value}')"
    classes, example = _VALUE_FORMS[meant]
    return f"; write {kind}({meant}={repr(value) if str in classes and isinstance(value, str) else example})"
