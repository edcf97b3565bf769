"""Fixtures for pytest: one broker for all tests, which is reset before each test.

    def test_orders(kafka):
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        ...
        kafka.expect("orders", {"id": 1})

pytest finds this plugin automatically. The broker's code is not imported until a test uses a fixture. With pytest-xdist
each worker has its own broker.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import ExitStack, nullcontext
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

import minibroker

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Unpack

    from pyspark.sql import SparkSession

    from minibroker.broker import Broker
    from minibroker.operations.options import BrokerOptions
    from minibroker.pytest_plugin.chaos_runs import Run
    from minibroker.security.setup import Security

_JOURNAL: Final = 1000
"""Number of requests kept for the report of a failed test."""
_REPORTED_REQUESTS: Final = 20
_REPEATABLE: Final[dict[str, Any]] = {"action": "append", "default": []}
_BROKER: Final = pytest.StashKey["Broker"]()
_STARTED: Final = pytest.StashKey["list[Broker]"]()
"""The brokers started by the test's `kafka_factory`."""
CHAOS_RUN: Final = pytest.StashKey["Run"]()
"""The run of a test under chaos that is going on."""
CHAOS_PROPERTY: Final = "kafka_chaos"
"""The property of a report that has the counts of a test's runs under chaos."""
_PACKAGES: Final = frozenset(
    {"minibroker", *(f"minibroker_{room}" for room in ("lab", "protocol", "registry", "storage"))}
)
"""The packages that a broker loads."""


class _PlainImports:
    """Finds the broker's modules before pytest does, which would rewrite their assertions.

    pytest rewrites all modules of a distribution that has a plugin. That takes time, and a broker imports modules on
    its own thread. In Python 3.11, `ast.parse` can fail if two threads call it at the same time (CPython gh-106905).
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Find a module with Python's own finder, if it belongs to the broker."""
        return PathFinder.find_spec(name, path, target) if name.partition(".")[0] in _PACKAGES else None


sys.meta_path.insert(0, _PlainImports())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add command line options and their equivalents in the configuration file."""
    group = parser.getgroup("minibroker", "the broker of the fixture `kafka`")
    group.addoption(
        "--kafka-topic",
        **_REPEATABLE,
        metavar="NAME[:PARTITIONS[:KEY=VALUE,...]]",
        help="a topic that exists when a test begins (repeatable; ini: kafka_topics)",
    )
    group.addoption(
        "--kafka-set", **_REPEATABLE, metavar="KEY=VALUE", help="a broker setting (repeatable; ini: kafka_config)"
    )
    group.addoption("--kafka-brokers", type=int, metavar="N", help="the number of brokers (ini: kafka_brokers)")
    group.addoption(
        "--kafka-timeout",
        type=float,
        metavar="SECONDS",
        help="the default timeout of `expect` and other methods that wait (ini: kafka_timeout)",
    )
    group.addoption(
        "--kafka-security",
        metavar="PROTOCOL",
        help="SSL, SASL_PLAINTEXT or SASL_SSL, see docs/security.md (ini: kafka_security)",
    )
    group.addoption(
        "--kafka-user",
        **_REPEATABLE,
        metavar="NAME:PASSWORD",
        help="a user who may log in (repeatable; ini: kafka_users)",
    )
    group.addoption(
        "--kafka-chaos",
        action="store_true",
        help="run each test that uses `kafka` under chaos, see docs/chaos.md",
    )
    group.addoption("--kafka-chaos-runs", type=int, metavar="N", help="the runs of each test under chaos; default 20")
    group.addoption(
        "--kafka-chaos-seed", type=int, metavar="SEED", help="run each test under chaos once, with this seed"
    )
    group.addoption(
        "--kafka-chaos-steps", metavar="FILE", help="run each test under chaos once, with the steps of an earlier run"
    )
    group.addoption("--kafka-chaos-profile", metavar="NAME", help="the misbehaviours of each test under chaos")
    group.addoption(
        "--kafka-chaos-shrink", action="store_true", help="shrink the steps of each test that fails under chaos"
    )
    group.addoption(
        "--kafka-chaos-shrink-seconds",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="the time to shrink the steps of a test; default 120",
    )
    parser.addini("kafka_security", "security protocol: SSL, SASL_PLAINTEXT or SASL_SSL", default="")
    parser.addini("kafka_users", "users who may log in, NAME:PASSWORD, one per line", type="linelist", default=[])
    parser.addini("kafka_topics", "topics that exist when a test begins, one per line", type="linelist", default=[])
    parser.addini("kafka_config", "broker settings, KEY=VALUE, one per line", type="linelist", default=[])
    parser.addini("kafka_timeout", "the default timeout of methods that wait, in seconds", default="10")
    parser.addini("kafka_brokers", "the number of brokers; default 1, or 3 if a test runs under chaos", default="")
    parser.addini("kafka_registry", "serve a schema registry", type="bool", default=False)
    parser.addini(
        "kafka_keep_schemas", "keep the subjects of the schema registry between tests", type="bool", default=False
    )
    parser.addini(
        "kafka_keep_topics",
        "keep topics between tests: records go and offsets continue, so readers with a checkpoint miss nothing",
        type="bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests under chaos, and check the options of chaos."""
    config.addinivalue_line(
        "markers",
        "kafka_chaos(*, runs, profile, only, without, seed, steps): run the test under chaos, see docs/chaos.md",
    )
    option = config.option
    given = (option.kafka_chaos_runs, option.kafka_chaos_profile, option.kafka_chaos_steps)
    if option.kafka_chaos_shrink or any(value is not None for value in given):
        _chaos_runs().check_options(config)


def _chaos_runs() -> ModuleType:
    from minibroker.pytest_plugin import chaos_runs  # noqa: PLC0415 - most sessions have no chaos

    return chaos_runs


def _uses_our_broker(item: pytest.Item) -> bool:
    """Return whether the fixture `kafka` of a test is the one of this module, or is built on it."""
    info: Any = getattr(item, "_fixtureinfo", None)
    for definition in reversed(() if info is None else info.name2fixturedefs.get("kafka", ())):
        if definition.func.__module__ == __name__:
            return True
        if "kafka" not in definition.argnames:
            break
    return False


def _asks_for_chaos(item: pytest.Item) -> bool:
    """Return whether the command line or a mark puts a test under chaos."""
    if not _uses_our_broker(item):
        return False
    option = item.config.option
    is_for_all = option.kafka_chaos or option.kafka_chaos_seed is not None or option.kafka_chaos_steps is not None
    return is_for_all or item.get_closest_marker("kafka_chaos") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test under chaos several times. Other plugins that repeat tests do not repeat these."""
    if item.config.option.kafka_chaos_runs == 0:
        return None
    if not _asks_for_chaos(item):
        if any(mark.name == "kafka_chaos" for mark in item.own_markers):
            item.warn(
                pytest.PytestWarning(
                    "kafka_chaos: nothing misbehaves, as the test does not use the `kafka` of minibroker"
                )
            )
        return None
    return _chaos_runs().run_under_chaos(item, nextitem) or None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report on the tests that ran under chaos."""
    tests: dict[str, Any] = {
        report.nodeid: counts
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, counts in getattr(report, "user_properties", ())
        if name == CHAOS_PROPERTY
    }
    if tests:
        terminalreporter.section("kafka chaos")
        for line in _chaos_runs().summarize(tests, is_verbose=terminalreporter.verbosity > 0):
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A `minibroker.Broker` that runs until the last test has ended. It is never reset automatically."""
    try:
        is_under_chaos = any(map(_asks_for_chaos, request.session.items))
        if not is_under_chaos:
            _warn_of_idle_options(request.config.option)
        broker = minibroker.Broker(**_read_options(request.config, is_under_chaos=is_under_chaos))
        broker.start()
    except (pytest.UsageError, ValueError) as error:
        # The key comes first, because pytest's summary shows only the beginning.
        raise pytest.fail.Exception(f"{error} (an option of the fixture `kafka`)", pytrace=False) from None
    with ExitStack() as ends:
        ends.callback(broker.stop)
        request.config.stash[_BROKER] = broker
        yield broker
        del request.config.stash[_BROKER]


@pytest.fixture
def kafka(kafka_session: Broker, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The session's broker in its initial state, without records, groups, transactions and faults.

    If a test has stopped the broker, it is started again on another port. Under chaos it misbehaves until the test
    and its other fixtures have ended.
    """
    if kafka_session.is_running:
        kafka_session.reset(
            keep_topics=request.config.getini("kafka_keep_topics"),
            keep_schemas=request.config.getini("kafka_keep_schemas"),
        )
    else:
        kafka_session.start()
    run: Run | None = request.node.stash.get(CHAOS_RUN, None)
    with nullcontext() if run is None else run.on(kafka_session):
        yield kafka_session


@pytest.fixture
def kafka_bootstrap_servers(kafka: Broker) -> str:
    """HOST:PORT of `kafka`, for a client's configuration."""
    return kafka.bootstrap_servers


@pytest.fixture(scope="session")
def kafka_spark() -> Iterator[SparkSession]:
    """A small Spark session with the Kafka connector, which runs until the last test has ended."""
    try:
        from minibroker_pipeline.jars import NoJarsError  # noqa: PLC0415 - most tests do not need it
        from minibroker_pipeline.session import spark_session, test_settings  # noqa: PLC0415 - few tests need it
    except ImportError as error:
        from minibroker_storage.installation_hints import missing  # noqa: PLC0415 - most installations lack nothing

        pytest.fail(f"the fixture `kafka_spark`: {missing(error.name, 'spark')}", pytrace=False)
    try:
        spark = spark_session("tests", **(test_settings() | {"spark.master": "local[1]"}))
    except NoJarsError as error:
        pytest.fail(f"the fixture `kafka_spark`: {error}", pytrace=False)
    yield spark
    spark.stop()


class KafkaFactory(Protocol):
    """The fixture `kafka_factory`."""

    def __call__(self, **options: Unpack[BrokerOptions]) -> Broker:
        """Start a broker with these options. It runs until the test ends."""
        ...


@pytest.fixture
def kafka_factory(request: pytest.FixtureRequest) -> Iterator[KafkaFactory]:
    """A function that starts a broker for one test, with the options of `minibroker.Broker`."""
    with ExitStack() as brokers:

        def start(*given: Any, **options: Unpack[BrokerOptions]) -> Broker:
            options.setdefault("journal", _JOURNAL)
            options.setdefault("timeout", _read_timeout(request.config))
            broker = brokers.enter_context(minibroker.Broker(*given, **options))
            request.node.stash.setdefault(_STARTED, []).append(broker)
            return broker

        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state and the newest requests of a failed test's brokers to the report."""
    report = yield
    if report.failed:
        _shorten(report, call)
        report.sections += [(title, _describe_broker(broker)) for title, broker in _brokers_of(item)]
        if call.excinfo is not None and "ScopeMismatch" in str(call.excinfo.value) and "kafka" in str(report.longrepr):
            report.sections.append(
                ("kafka", "a fixture that outlives a test uses `kafka_session`, and resets it itself")
            )
    return report


def _shorten(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Begin the summary line with the message. The name of the error's type would take up its space."""
    errors = sys.modules.get("minibroker.cluster.errors")
    crash = getattr(report.longrepr, "reprcrash", None)
    if errors is None or crash is None or call.excinfo is None:
        return
    if call.excinfo.errisinstance((errors.FailedExpectationError, errors.OperationError)):
        crash.message = str(call.excinfo.value)


def _brokers_of(item: pytest.Item) -> Iterator[tuple[str, Broker]]:
    broker = item.config.stash.get(_BROKER, None)
    if broker is not None and "kafka" in getattr(item, "fixturenames", ()):
        yield "kafka", broker
    started = item.stash.setdefault(_STARTED, [])
    for number, started_broker in enumerate(started, 1):
        if started_broker.is_running:
            yield "kafka_factory" if len(started) == 1 else f"kafka_factory, broker {number}", started_broker


def _warn_of_idle_options(option: Any) -> None:
    """Warn that options of chaos change nothing, since no test is under chaos."""
    given = {name: getattr(option, f"kafka_chaos_{name}") for name in ("profile", "runs", "shrink")}
    names = ", ".join(f"--kafka-chaos-{name}" for name, value in given.items() if value)
    if names:
        message = f"{names}: no test runs under chaos; add --kafka-chaos, or mark tests with kafka_chaos"
        warnings.warn(message, minibroker.MinibrokerWarning, stacklevel=2)


def _describe_broker(broker: Broker) -> str:
    from minibroker.operations.overview import overview  # noqa: PLC0415 - most tests do not fail

    try:
        return broker.wait(overview(broker.services, _REPORTED_REQUESTS))
    except Exception as error:  # noqa: BLE001 - pytest would end all tests over it
        return f"cannot be shown: {error}"  # The test may have stopped the broker.


def _read_options(config: pytest.Config, *, is_under_chaos: bool) -> BrokerOptions:
    """Return the options of the session's broker. Under chaos it has more brokers, and keeps facts for checks.

    Raises:
        UsageError: a setting is invalid.
    """
    from minibroker.broker.checked_options import CHAOS_BROKERS, CHAOS_PROPERTIES  # noqa: PLC0415 - the same
    from minibroker.cluster.topic_admin import TopicSpec  # noqa: PLC0415 - the same

    settings: dict[str, str] = {}
    for source, lines in (("kafka_config", config.getini("kafka_config")), ("--kafka-set", config.option.kafka_set)):
        for line in lines:
            key, equals, value = line.partition("=")
            if not equals or not key.strip():
                raise pytest.UsageError(f"{source}: {line!r} is not KEY=VALUE")
            settings[key.strip()] = value.strip()
    number = config.getini("kafka_brokers") if config.option.kafka_brokers is None else config.option.kafka_brokers
    if number == "":
        number = CHAOS_BROKERS if is_under_chaos else 1
    if not str(number).isdigit() or not int(number):
        raise pytest.UsageError(f"kafka_brokers: {number!r} is not a whole number of at least 1")
    for name in ("kafka_keep_topics", "kafka_keep_schemas"):
        _read_flag(config, name)
    if is_under_chaos and int(number) >= CHAOS_BROKERS:
        settings = {**CHAOS_PROPERTIES, **settings}
    topics = [*config.getini("kafka_topics"), *config.option.kafka_topic]
    for topic in topics:
        try:
            TopicSpec.parse(topic)
        except ValueError as error:
            source = "--kafka-topic" if topic in config.option.kafka_topic else "kafka_topics"
            raise pytest.UsageError(f"{source}: {error}") from None
    return {
        "check": is_under_chaos,
        "config": settings,
        "topics": topics,
        "brokers": int(number),
        "journal": _JOURNAL,
        "registry": _read_flag(config, "kafka_registry"),
        "security": _read_security(config),
        "timeout": _read_timeout(config),
    }


def _read_flag(config: pytest.Config, name: str) -> bool:
    """Return a setting that is true or false.

    Raises:
        UsageError: the value is neither.
    """
    try:
        return bool(config.getini(name))
    except (pytest.UsageError, ValueError) as error:  # pytest raises either, by its version.
        raise pytest.UsageError(f"{name}: {error}; write true or false") from None


def _read_timeout(config: pytest.Config) -> float:
    """Return the timeout of all brokers, in seconds.

    Raises:
        UsageError: the value is not a valid time.
    """
    setting = config.getini("kafka_timeout") if config.option.kafka_timeout is None else config.option.kafka_timeout
    try:
        seconds = float(setting)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise pytest.UsageError(f"kafka_timeout: {setting!r} is not a number of seconds from 0 on, such as 10")
    return seconds


def _read_security(config: pytest.Config) -> Security | None:
    """Return the security that clients must use, or None.

    Raises:
        UsageError: the options contradict each other.
    """
    users: dict[str, str] = {}
    for source, lines in (("kafka_users", config.getini("kafka_users")), ("--kafka-user", config.option.kafka_user)):
        for number, line in enumerate(lines, 1):
            name, colon, password = line.partition(":")
            if not colon or not name or not password:
                raise pytest.UsageError(f"{source}: user {number} is not NAME:PASSWORD")
            users[name] = password
    protocol = config.option.kafka_security or config.getini("kafka_security")
    if not protocol:
        if users:
            raise pytest.UsageError("kafka_users: users log in only with kafka_security; set it, too")
        return None
    from minibroker.security.setup import Security  # noqa: PLC0415 - most brokers have no logins

    try:
        return Security(protocol, users=users)
    except ValueError as error:
        source = "--kafka-security" if config.option.kafka_security else "kafka_security"
        raise pytest.UsageError(f"{source}: {error}; for no security, leave it out") from None
