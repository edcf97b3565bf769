"""rpk's commands for topics and clusters."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker import AsyncBroker, Broker, Security
from minibroker_control.vendors.ports import AdminPorts
from minibroker_tools.commands import rpk as rpk_command
from minibroker_tools.commands import rpk_topics
from tests.command_line_tools.runs import Printed, run_tool
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders:2", "empty"]) as running:
        yield running


def rpk(broker: Broker, *words: str, stdin: bytes = b"") -> Printed:
    """Run rpk for a broker."""
    return run_tool("rpk", *words, "--brokers", broker.bootstrap_servers, stdin=stdin)


def test_topics_are_created_listed_described_and_deleted(broker: Broker) -> None:
    made = rpk(broker, "topic", "create", "a", "b", "-p3", "-c", "retention.ms=1000", "--topic-config=segment.ms=60000")
    assert made == Printed("TOPIC  STATUS\na      OK\nb      OK\n", "", 0)
    again = rpk(broker, "topic", "create", "a")
    assert (again.out.splitlines()[1][:28], again.status) == ("a      TOPIC_ALREADY_EXISTS:", 1)
    assert rpk(broker, "topic", "create", "a", "--if-not-exists").status == 0
    listed = rpk(broker, "topic", "list", "a", "orders").out
    assert listed == "NAME    PARTITIONS  REPLICAS\na       3           1\norders  2           1\n"
    shown = rpk(broker, "topic", "describe", "a").out
    assert shown.startswith("SUMMARY\n=======\nNAME        a\nPARTITIONS  3\nREPLICAS    1\n\nCONFIGS\n=======\n")
    configs = [line.split() for line in shown.splitlines()]
    assert ["retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG"] in configs
    assert ["min.insync.replicas", "1", "DEFAULT_CONFIG"] in configs
    assert rpk(broker, "topic", "delete", "a", "b").status == 0
    gone = rpk(broker, "topic", "delete", "a")
    assert (gone.out.splitlines()[1][:29], gone.status) == ("a      UNKNOWN_TOPIC_OR_PARTI", 1)


def test_lines_are_produced_and_consumed(broker: Broker) -> None:
    sent = rpk(broker, "topic", "produce", "orders", "-p", "1", "-k", "key", "-H", "h:v", stdin=b"one\ntwo\nthree\n")
    assert [line.partition(" with timestamp ")[0] for line in sent.out.splitlines()] == [
        f"Produced to partition 1 at offset {offset}" for offset in range(3)
    ]
    first = json.loads(rpk(broker, "topic", "consume", "orders", "-n", "1").out)
    assert first.pop("timestamp") > 0
    headers = [{"key": "h", "value": "v"}]
    assert first == {
        "topic": "orders", "key": "key", "value": "one", "headers": headers, "partition": 1, "offset": 0
    }  # fmt: skip
    form = ("-f", "%t %p %o %k=%v%%\\n")
    offsets = {
        ":end": ["0 key=one", "1 key=two", "2 key=three"],
        "1:2": ["1 key=two"],
        "-1:": ["2 key=three"],
        "+1:end": ["1 key=two", "2 key=three"],
        "end:end": [],
    }
    for start, lines in offsets.items():
        printed = rpk(broker, "topic", "consume", "orders", "-o", start, *form)
        assert printed == Printed("".join(f"orders 1 {line}%\n" for line in lines), "", 0), start
    grouped = rpk(broker, "topic", "consume", "orders", "-g", "readers", "-n", "2", "-f", "%v,")
    assert grouped == Printed("one,two,", "", 0)
    assert rpk(broker, "topic", "consume", "orders", "-g", "readers", "-n", "1", "-f", "%v,").out == "three,"
    partitions = rpk(broker, "topic", "describe", "orders", "-p").out.splitlines()
    assert [line.split()[-2:] for line in partitions[3:]] == [["0", "0"], ["0", "3"]]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["topic", "produce", "orders", "-H", "h"], "--header h: it is not KEY:VALUE"),
        (["topic", "consume", "orders", "-o", "x"], "--offset x: it is not one of start, end, N, +N, -N, START:STOP"),
        (["topic", "create", "c", "-c", "x"], "--topic-config x: it is not KEY=VALUE"),
        (["topic", "list", "-X", "brokers"], "-X brokers: it is not KEY=VALUE"),
        (["topic", "list", "--tls-enabled"], "rpk: unrecognized arguments: --tls-enabled"),
        (["cluster", "config", "set", "a"], "rpk cluster config set a: a value is missing; give KEY VALUE"),
        (["topic", "frobnicate"], "rpk topic: argument action: invalid choice: 'frobnicate'"),
        (["redpanda", "start"], "rpk redpanda start starts a broker in minibroker's container image"),
        (["topic", "describe", "none"], "This server does not host this topic-partition."),
        (["cluster", "health", "--api-urls", "127.0.0.1:1"], "unable to request cluster health: 127.0.0.1:1: Conn"),
    ],
)
def test_what_rpk_cannot_do_is_told_in_a_line(broker: Broker, words: list[str], reason: str) -> None:
    printed = rpk(broker, *words)
    assert printed.status == 1
    assert printed.err.startswith(reason)


def test_lines_have_the_given_form(broker: Broker) -> None:
    assert rpk(broker, "topic", "create", "formed").status == 0
    made = rpk(broker, "topic", "produce", "formed", "-f", "%k=%v\\n", "-o", "%o ", stdin=b"a=1=2\nb=\n")
    assert (made.out, made.status) == ("0 1 ", 0)
    assert [(record.key, record.value) for record in broker.records("formed")] == [(b"a", b"1=2"), (b"b", b"")]
    wrong = rpk(broker, "topic", "produce", "formed", "-f", "%k=%v\\n", stdin=b"none\n")
    assert (wrong.status, "'none' is not of the form" in wrong.err) == (1, True)
    for form in ("%v", "%h{%k}\\n", "%v%v\\n", "%V{4}%v\\n"):
        refused = rpk(broker, "topic", "produce", "formed", "-f", form)
        assert (refused.status, refused.err.startswith(f"--format {form}: only %k and %v")) == (1, True)


def test_topics_are_altered_and_grow(broker: Broker) -> None:
    assert rpk(broker, "topic", "create", "altered", "-c", "segment.ms=60000").status == 0
    words = ("topic", "alter-config", "altered", "--set", "retention.ms=5", "--delete", "segment.ms", "--no-confirm")
    assert rpk(broker, *words) == Printed("TOPIC    STATUS\naltered  OK\n", "", 0)
    described = rpk(broker, "topic", "describe", "altered", "-c").out
    assert ["retention.ms", "5", "DYNAMIC_TOPIC_CONFIG"] in [line.split() for line in described.splitlines()]
    assert rpk(broker, "topic", "alter-config", "altered", "--set", "no.key=1").status == 1
    assert rpk(broker, "topic", "alter-config", "altered", "--set", "alone").status == 1
    assert rpk(broker, "topic", "add-partitions", "altered", "-n", "2").status == 0
    assert rpk(broker, "topic", "list", "altered").out.splitlines()[1].split() == ["altered", "3", "1"]


def test_groups_are_listed_described_and_deleted(broker: Broker) -> None:
    broker.produce("orders", "x")
    assert rpk(broker, "topic", "consume", "orders", "-g", "readers", "-n", "1").status == 0
    assert ["1", "readers", "Empty"] in [line.split() for line in rpk(broker, "group", "list").out.splitlines()]
    shown = rpk(broker, "group", "describe", "readers").out
    assert "STATE        Empty\n" in shown
    assert "TOTAL-LAG    0\n" in shown
    assert rpk(broker, "group", "delete", "readers") == Printed("GROUP    STATUS\nreaders  OK\n", "", 0)
    assert rpk(broker, "group", "describe", "readers").status == 1
    assert rpk(broker, "group", "delete", "readers").status == 1


def test_status_is_another_name_of_info(broker: Broker) -> None:
    assert rpk(broker, "cluster", "status") == rpk(broker, "cluster", "info")


def test_help_is_no_error() -> None:
    assert run_tool("rpk", "topic", "--help").status == 0


def test_rpk_logs_in_with_scram(monkeypatch: pytest.MonkeyPatch) -> None:
    security = Security("SASL_PLAINTEXT", users={"alice": "secret"}, mechanisms=["SCRAM-SHA-256"])
    with Broker(security=security, topics=["orders"]) as broker:
        words = ("topic", "list", "--brokers", broker.bootstrap_servers)
        options = "--user alice --password secret --sasl-mechanism SCRAM-SHA-256"
        by_options = run_tool("rpk", *words, *options.split())
        assert by_options.out.splitlines()[1].split()[0] == "orders"
        settings = "-X user=alice -X pass=secret -X sasl.mechanism=SCRAM-SHA-256"
        assert run_tool("rpk", *words, *settings.split()) == by_options
        monkeypatch.setenv("RPK_BROKERS", broker.bootstrap_servers)
        monkeypatch.setenv("RPK_USER", "alice")
        monkeypatch.setenv("RPK_PASS", "wrong")
        assert run_tool("rpk", "topic", "list").status == 1


async def test_users_are_made_listed_and_deleted() -> None:
    security = Security("SASL_PLAINTEXT", users={"admin": "secret"}, mechanisms=["SCRAM-SHA-256"])
    async with AsyncBroker(security=security) as broker:
        ports = AdminPorts(["redpanda=127.0.0.1:0"])
        await ports.open(broker.services)
        host = f"127.0.0.1:{ports.ports[0]}"

        async def users(*words: str) -> Printed:
            return await asyncio.to_thread(run_tool, "rpk", *words, "--api-urls", host)

        assert (await users("acl", "user", "create", "bob", "-p", "one")).out == 'Created user "bob".\n'
        again = await users("security", "user", "create", "bob", "--password", "two")
        assert (again.status, again.err.endswith('"code":400}\n')) == (1, True)
        login = ("--user", "bob", "--password", "one", "--sasl-mechanism", "SCRAM-SHA-256")
        listed = ("--brokers", broker.bootstrap_servers, "topic", "list", *login)
        assert (await asyncio.to_thread(run_tool, "rpk", *listed)).status == 0
        assert (await users("acl", "user", "list")).out.splitlines() == ["USERNAME", "bob"]
        assert (await users("security", "user", "delete", "bob")).out == 'Deleted user "bob".\n'
        assert (await asyncio.to_thread(run_tool, "rpk", *listed)).status == 1
        ports.close()


async def test_the_configuration_of_the_cluster_is_read_and_changed() -> None:
    async with AsyncBroker() as broker:
        ports = AdminPorts(["redpanda=127.0.0.1:0"])
        await ports.open(broker.services)
        hosts = ("-X", f"admin.hosts=127.0.0.1:{ports.ports[0]}")

        async def config(*words: str) -> Printed:
            return await asyncio.to_thread(run_tool, "rpk", "cluster", "config", *words, *hosts)

        updated = "Successfully updated configuration. New configuration version is 1.\n"
        assert await config("set", "auto_create_topics_enabled", "false") == Printed(updated, "", 0)
        assert (await config("set", "log_compression_type=gzip")).out == updated
        assert (await config("get", "auto_create_topics_enabled", "log_compression_type")).out == "false\ngzip\n"
        assert (await config("set", "log_compression_type", "")).status == 0
        assert (await config("get", "log_compression_type")).out == "producer\n"
        unknown = await config("set", "log_segment_ms_min", "1000")
        reason = "no effect: log_segment_ms_min=1000; minibroker does not have this property of Redpanda\n"
        assert unknown == Printed(updated, reason, 0)
        refused = await config("set", "enable_sasl", "true")
        assert (refused.status, "true cannot be set while the broker runs" in refused.err) == (1, True)
        assert (await config("get", "other")).status == 1
        ports.close()


def test_configurations_of_redpandas_topics_are_named_and_left_out(broker: Broker) -> None:
    options = ("-c", "write.caching=true", "--topic-config", "flush.ms=1000", "-c", "redpanda.remote.read=true")
    made = rpk(broker, "topic", "create", "cached", *options)
    reason = "; this configuration is Redpanda's, and only its topics have it\n"
    named = f"no effect: write.caching=true{reason}no effect: redpanda.remote.read=true{reason}"
    assert made == Printed("TOPIC   STATUS\ncached  OK\n", named, 0)
    assert broker.topic_config("cached")["flush.ms"] == "1000"
    assert rpk(broker, "topic", "alter-config", "cached", "--set", "write.caching=false").status == 0


@pytest.mark.parametrize("words", [("--path", "/missing.license", "-X admin.hosts=redpanda:9644"), ("abc",)])
def test_a_license_has_no_effect(words: tuple[str, ...]) -> None:
    expected = Printed("", "no effect: minibroker has no feature that takes a license\n", 0)
    assert run_tool("rpk", "cluster", "license", "set", *words) == expected


def test_profiles_keep_settings(broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for module in (rpk_command, rpk_topics):
        monkeypatch.setattr(module, "PROFILES", tmp_path / ".config/rpk/minibroker.json")
    assert run_tool("rpk", "profile", "create", "far", "-s", "brokers=nowhere:1").status == 0
    assert run_tool("rpk", "topic", "list").status == 1
    assert run_tool("rpk", "profile", "create", "far").err == "rpk profile create: the profile 'far' exists\n"
    assert run_tool("rpk", "profile", "create", "near").status == 0
    assert run_tool("rpk", "profile", "set", f"brokers={broker.bootstrap_servers}").status == 0
    assert "orders" in run_tool("rpk", "topic", "list").out
    assert run_tool("rpk", "profile", "use", "far").status == 0
    assert run_tool("rpk", "topic", "list").status == 1
    assert "orders" in run_tool("rpk", "topic", "list", f"-X brokers={broker.bootstrap_servers}").out
    assert run_tool("rpk", "profile", "delete", "far").status == 0
    assert run_tool("rpk", "profile", "use", "far").err == "rpk profile use: the profile 'far' is missing\n"
    assert run_tool("rpk", "profile", "set", "user=a").status == 1


async def test_health_and_brokers_are_those_of_the_cluster() -> None:
    async with AsyncBroker(brokers=2, topics=["orders:2"]) as broker:
        ports = AdminPorts(["redpanda=127.0.0.1:0"])
        await ports.open(broker.services)
        words = ("cluster", "health", "-X", f"admin.hosts=127.0.0.1:{ports.ports[0]}")
        healthy = await asyncio.to_thread(run_tool, "rpk", *words, "-e")
        assert await asyncio.to_thread(run_tool, "rpk", *words, "--watch=false", "--exit-when-healthy=true") == healthy
        assert healthy.out == (
            "CLUSTER HEALTH OVERVIEW\n"
            "=======================\n"
            "Healthy:                          true\n"
            "Unhealthy reasons:                []\n"
            "Controller ID:                    1\n"
            "All nodes:                        [1 2]\n"
            "Nodes down:                       []\n"
            "Leaderless partitions (0):        []\n"
            "Under-replicated partitions (0):  []\n"
        )
        await broker.brokers[2].stop()
        ill = await asyncio.to_thread(run_tool, "rpk", *words)
        assert "Healthy:                          false\n" in ill.out
        assert "Leaderless partitions (1):        [kafka/orders/1]\n" in ill.out
        waiting = asyncio.create_task(asyncio.to_thread(run_tool, "rpk", *words, "--exit-when-healthy"))
        await broker.brokers[2].start()
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).status == 0
        info = await asyncio.to_thread(run_tool, "rpk", "cluster", "info", "--brokers", broker.bootstrap_servers)
        assert info.out.startswith(f"CLUSTER\n=======\n{broker.services.core.cluster.cluster_id}\n\nBROKERS\n=======\n")
        assert [line.split()[0] for line in info.out.splitlines()[6:9]] == ["ID", "1*", "2"]
        ports.close()
