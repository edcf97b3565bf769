"""The validated options of a broker, with defaults for those left out."""

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from minibroker.cluster import listeners
from minibroker.cluster.topic_admin import TopicSpec
from minibroker.config import BrokerConfig
from minibroker.config.addresses import check_port_range, parse_address, parse_advertised, parse_guarded_address
from minibroker.config.keys import refused
from minibroker.operations.options import DEFAULT_LISTEN, DEFAULT_TIMEOUT, BrokerOptions
from minibroker.operations.wording import config_text, format_count
from minibroker_chaos.steps import parse_seed
from minibroker_protocol.lazy_imports import lazy

with lazy:
    import minibroker_control
    from minibroker.operations import seeding
    from minibroker.security import settings as security_settings
    from minibroker_chaos import rows
    from minibroker_lab import page as page_module
    from minibroker_registry import server as registry_server
    from minibroker_storage import installation_hints

if TYPE_CHECKING:
    # Imported for type checking only, because most brokers use none of these modules.
    from minibroker.operations.seeding import Seeds
    from minibroker_control.plane import ControlPlane
    from minibroker_lab.page.plane import PagePlane
    from minibroker_registry.server import RegistryServer


CHAOS_BROKERS: Final = 3
CHAOS_PROPERTIES: Final = {"default.replication.factor": "3", "min.insync.replicas": "2"}

_logger: Final = logging.getLogger(__name__)


class CheckedOptions:
    """The validated options of a broker.

    Attributes:
        chaos: the seed and the profile of chaos, or None.
        racks: the rack of each broker, where an empty string stands for `broker.rack`. Empty if none are given.
        listeners: the listeners of the first broker.
        seeds: the topics and records of `seed_data`.
        journal: the number of requests to keep, True for the default number, or 0 for no journal.
        check: whether facts are kept for checks.
        data_dir: the log directory, or None for a temporary one.
        timeout: the default timeout of methods that wait, in seconds.
        remarks: warnings about the configuration.
        is_registry_optional: whether the broker starts without the registry if its address is in use.

    Raises:
        TypeError, ValueError, ConfigError: an option is invalid; the message names it.
    """

    def __init__(self, options: BrokerOptions) -> None:
        # Keep a reference, because a Security object deletes its generated certificates when it is freed.
        self.security = options.get("security")
        self.chaos = parse_seed(options.get("chaos"))
        properties = {name: _config_text(name, value) for name, value in (options.get("config") or {}).items()}
        if self.security is not None:
            properties = {**self.security.settings(), **properties}
        if self.chaos is not None:
            rows.rows_of(self.chaos[1])  # refuses an unknown profile
            properties = {**CHAOS_PROPERTIES, **properties}
        self.config = BrokerConfig.from_properties(properties)
        self.topics = _parse_topics(options)
        seed_data = options.get("seed_data")
        self.seeds = None if seed_data is None else seeding.read_seeds(os.fspath(seed_data))
        self.racks = _parse_racks(options, self.seeds)
        default_brokers = 1 if self.chaos is None else CHAOS_BROKERS
        self.brokers = _count_brokers(options, self.racks, default_brokers)
        self.listeners = _make_listeners(options, properties, self.brokers)
        self.clock = options.get("clock")
        self.journal = options.get("journal", False)
        self.check = options.get("check", False)
        if self.journal is not True and self.journal < 0:
            raise ValueError(f"journal: {self.journal} is below 0")
        self._control_token = options.get("control_token")
        self._control = _parse_address("control", options.get("control"), self._control_token)
        page = options.get("page")
        self._page = _parse_address("page", DEFAULT_LISTEN if page is True else page or None, self._control_token)
        registry = options.get("registry")
        registry = DEFAULT_LISTEN if registry is True else registry or None
        if registry is not None and ":" not in registry:
            raise ValueError(f"registry: {registry!r} is not HOST:PORT; in Python, True takes a free port")
        self._registry = None if registry is None else parse_address(registry.removeprefix("https://"), "registry")
        self.is_registry_optional = False
        self._has_secure_registry = registry is not None and registry.startswith("https://")
        self.timeout = options.get("timeout", DEFAULT_TIMEOUT)
        if not self.timeout >= 0:  # The condition is negated, so that it also rejects NaN.
            raise ValueError(f"timeout: {self.timeout} s is below 0")
        data_dir = options.get("data_dir")
        self.data_dir = None if data_dir is None else os.fspath(data_dir)
        self.remarks = self.config.remarks() + self.config.remarks_on_replicas(self.brokers)
        if options.get("listeners") is None and self.security is None:
            advertises = options.get("advertise") is not None
            self.remarks += _find_ignored_listeners(properties, self.listeners, advertises=advertises)
        for name in ("log.dirs", "log.dir"):
            text = properties.get(name)
            if text and self.data_dir not in {directory.strip() for directory in text.split(",")}:
                self.remarks.append(f"{name}={text} has no effect: data_dir names the directory of the logs")

    def open_control_plane(self) -> "ControlPlane | None":
        """Return the control plane, bound to its address but not yet serving, or None if `control` is not set.

        Raises:
            ValueError: the extra `control` is not installed.
            OSError: the address is in use.
        """
        if self._control is None:
            return None
        return minibroker_control.open_plane(self._control, self._control_token)

    @property
    def has_page(self) -> bool:
        """Whether `page` is set."""
        return self._page is not None

    def open_page(self, control: "ControlPlane | None") -> "PagePlane | None":
        """Return the page, bound to its address but not yet serving, or None if `page` is not set.

        The page also serves the address of the control plane, if there is one.

        Raises:
            ValueError: the extra `lab` is not installed.
            OSError: the address is in use.
        """
        if self._page is None:
            return None
        page = page_module.open_page(self._page, self._control_token)
        if control is not None:
            page.adopt(control)
        return page

    def open_registry(self) -> "RegistryServer | None":
        """Return the registry, bound to its address but not yet serving, or None without one.

        Raises:
            ValueError: the extra `registry` is not installed, or the certificate cannot be used.
            OSError: the address is in use.
        """
        if self._registry is None:
            return None
        secure = [listener.name for listener in self.listeners if listener.protocol.endswith("SSL")]
        name = secure[0] if secure else self.listeners[0].name
        try:
            return registry_server.RegistryServer(
                self._registry,
                self.config.optional_text("minibroker.registry.token"),
                security_settings.ListenerSettings(self.config, name) if self._has_secure_registry else None,
            )
        except ModuleNotFoundError as error:
            raise ValueError(f"registry: {installation_hints.missing(error.name, 'registry')}") from None
        except OSError as error:
            if not self.is_registry_optional:
                raise
            _logger.warning("there is no schema registry: %s", error.strerror)
            return None


def _parse_topics(options: BrokerOptions) -> list[TopicSpec]:
    names = options.get("topics", ())
    if isinstance(names, Mapping):
        raise TypeError(f"topics: {names!r} is a dict; give a list, such as ['orders:4']")
    topics: list[TopicSpec] = []
    for text in names:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers have types
            raise TypeError(f"topics: {text!r} is not a text such as 'orders' or 'orders:4'")
        try:
            topics.append(TopicSpec.parse(text))
        except ValueError as error:
            raise ValueError(f"topics: {error}") from None
    for name, count in Counter(spec.name for spec in topics).items():
        if count > 1:
            raise ValueError(f"topic {name!r} is given {count} times")
    return topics


def _parse_racks(options: BrokerOptions, seeds: "Seeds | None") -> list[str]:
    names = options.get("racks") or (() if seeds is None else seeds.racks)
    racks = ["" if rack is None else rack for rack in names]
    for rack in racks:
        if not isinstance(rack, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers have types
            raise TypeError(f"racks: {rack!r} is not the name of a rack, or None")
    return [rack.strip() for rack in racks]


def _count_brokers(options: BrokerOptions, racks: Sequence[str], default: int) -> int:
    brokers = options.get("brokers")
    if brokers is None:
        return len(racks) or default
    if not isinstance(brokers, int):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers have types
        raise TypeError(f"brokers: {brokers!r} is not an integer")
    if brokers < 1:
        raise ValueError(f"brokers: {brokers} is not at least 1")
    if racks and len(racks) != brokers:
        raise ValueError(
            f"racks: {format_count(len(racks), 'rack')} ({', '.join(map(repr, racks))}) for "
            f"{format_count(brokers, 'broker')}; give one for each"
        )
    return brokers


def _make_listeners(
    options: BrokerOptions, properties: Mapping[str, str], brokers: int
) -> list[listeners.ServedListener]:
    advertise = options.get("advertise")
    advertised = (
        None if advertise is None else check_port_range(parse_advertised(advertise, "advertise"), brokers, "advertise")
    )
    listed = options.get("listeners")
    if listed is not None:
        served = listeners.served_listeners(properties, listed, "listeners")
        if advertised is not None:
            served[0] = served[0]._replace(advertised=advertised)
    else:
        security = options.get("security")
        protocol = listeners.PLAINTEXT if security is None else security.protocol
        host, port = check_port_range(parse_address(options.get("listen", DEFAULT_LISTEN), "listen"), brokers, "listen")
        if advertised is None and (by_list := listeners.advertised_addresses(properties).get(protocol)) is not None:
            advertised = check_port_range(by_list, brokers, "advertised.listeners")
        served = [listeners.ServedListener(protocol, protocol, host, port, advertised)]
    for number, text in enumerate(options.get("also_listen", ()), 2):
        served.append(_parse_listener(text, number, brokers))
    listeners.check_room(served, brokers)
    return served


def _parse_listener(text: str, number: int, brokers: int) -> listeners.ServedListener:
    """Parse an additional plaintext listener, HOST:PORT or HOST:PORT=ADVERTISED.

    Raises:
        ValueError: an address is invalid.
    """
    listen, equals, written = text.partition("=")
    host, port = check_port_range(parse_address(listen, "also_listen"), brokers, "also_listen")
    advertised = check_port_range(parse_advertised(written, "also_listen"), brokers, "also_listen") if equals else None
    return listeners.ServedListener(f"{listeners.PLAINTEXT}-{number}", listeners.PLAINTEXT, host, port, advertised)


def _find_ignored_listeners(
    properties: Mapping[str, str], served: Sequence[listeners.ServedListener], *, advertises: bool
) -> list[str]:
    """Return warnings about `listeners` and `advertised.listeners` if they have no effect."""
    remarks: list[str] = []
    listed, advertised = properties.get("listeners"), properties.get("advertised.listeners")
    if advertised and not advertises and served[0].protocol not in listeners.advertised_addresses(properties):
        remarks.append(f"advertised.listeners={advertised} has no effect: none is named {served[0].protocol}")
    if not listed:
        return remarks
    try:
        configured = listeners.served_listeners(properties, listed, "listeners")
    except listeners.ListenerError:
        return remarks
    if any(listener.protocol != listeners.PLAINTEXT for listener in configured):
        remarks.append(
            f"listeners={listed} is passed over, since another address was given: clients are served there in plain "
            "text and need not log in. `minibroker serve` without --listen has the list served, and so has "
            "Broker(listeners=...)"
        )
    elif {listener.port for listener in configured}.isdisjoint(listener.port for listener in served):
        remarks.append(f"listeners={listed} has no effect: Broker(listeners=...) has the list served")
    return remarks


def _parse_address(option: str, text: str | None, token: str | None) -> tuple[str, int] | None:
    """Parse the address of the control plane or the page. Return None if the option is not set.

    Raises:
        ValueError: `parse_guarded_address` rejects the address.
    """
    sources = "--control-token, MINIBROKER_CONTROL_TOKEN, or control_token in Python"
    return None if text is None else parse_guarded_address(option, text, token, sources)


def _config_text(name: str, value: object) -> str:
    """Return a configuration value as text, as in a properties file.

    Raises:
        ConfigError: the value cannot be written in a properties file.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return config_text(value)
    shown = repr(value)
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if all(isinstance(item, str) for item in items):
            return ",".join(map(str, items))
    raise refused(name, shown, "Expected a text, a number, True, False or a list of texts")
