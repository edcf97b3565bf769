"""Our tools and the newest Kafka's tools: commands with the same output, and commands whose text differs."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.comparing import Comparison
from tests.command_line_tools.newest_jars import NewestTools
from tests.command_line_tools.runs import run_kafka_tool, run_our_tool, run_tool
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka
from tests.patience import NO_RETENTION

_TOPIC = "compared"
_DIRECTORY = "qdzs4PO4Q1CKDeXbCZzMTg"
"""The id of a controller's directory."""
_SAME = (
    "kafka-topics --bootstrap-server {B} --create --topic {} --partitions 3 --config retention.ms=1000",
    "kafka-topics --bootstrap-server {B} --create --topic {}",
    "kafka-topics --bootstrap-server {B} --create --topic {} --if-not-exists",
    "kafka-topics --bootstrap-server {B} --list",
    "kafka-topics --bootstrap-server {B} --describe --topic {}",
    "kafka-topics --bootstrap-server {B} --alter --topic {} --partitions 5",
    "kafka-topics --bootstrap-server {B} --alter --topic {} --partitions 2",
    "kafka-topics --bootstrap-server {B} --create --topic bad/name",
    "kafka-topics --list",
    "kafka-configs --bootstrap-server {B} --alter --topic {} --add-config retention.ms=7,flush.ms=[9]",
    "kafka-configs --bootstrap-server {B} --describe --topic {}",
    "kafka-configs --bootstrap-server {B} --alter --topic {} --delete-config retention.ms",
    "kafka-configs --bootstrap-server {B} --alter --topic {} --add-config retention.ms=soon",
    "kafka-configs --bootstrap-server {B} --describe --entity-type groups",
    f"kafka-get-offsets --bootstrap-server {{B}} --topic {_TOPIC}",
    "kafka-get-offsets --bootstrap-server {B} --topic {}-none",
    "kafka-cluster cluster-id --bootstrap-server {B}",
    "kafka-consumer-groups --bootstrap-server {B} --list",
    "kafka-consumer-groups --list",
    "kafka-groups --bootstrap-server {B} --list",
    "kafka-groups --bootstrap-server {B} --list --consumer",
    "kafka-groups --bootstrap-server {B} --list --group-type classic",
    "kafka-groups --bootstrap-server {B} --list --protocol odd",
    "kafka-groups --bootstrap-server {B} --list --share",
    "kafka-groups --bootstrap-server {B} --list --streams",
    "kafka-groups --bootstrap-server {B}",
    "kafka-groups --bootstrap-server {B} --list --share --consumer",
    "kafka-groups --bootstrap-server {B} --list --group-type odd",
    "kafka-groups --bootstrap-server {B} --list --protocol a --streams",
    "kafka-groups --list",
    "kafka-transactions --bootstrap-server {B} list",
    "kafka-transactions --bootstrap-server {B} list --transactional-id-pattern {}.*",
    "kafka-transactions --bootstrap-server {B} describe --transactional-id {}",
    f"kafka-transactions --bootstrap-server {{B}} describe-producers --topic {_TOPIC} --partition 0",
    f"kafka-transactions --bootstrap-server {{B}} find-hanging --topic {_TOPIC}",
    "kafka-transactions --bootstrap-server {B} find-hanging",
    "kafka-transactions --bootstrap-server {B} forceTerminateTransaction --transactionalId {}-forced",
    "kafka-transactions --bootstrap-server {B} forceTerminateTransaction",
    "kafka-leader-election --bootstrap-server {B} --election-type preferred --all-topic-partitions",
    f"kafka-leader-election --bootstrap-server {{B}} --election-type preferred --topic {_TOPIC} --partition 0",
    "kafka-log-dirs --bootstrap-server {B}",
    "kafka-delete-records --bootstrap-server {B}",
    "kafka-reassign-partitions --bootstrap-server {B} --list",
    "kafka-reassign-partitions --bootstrap-server {B} --list --bootstrap-controller localhost:1",
    "kafka-reassign-partitions --bootstrap-server {B}",
    "kafka-acls --bootstrap-server {B} --list",
    "kafka-features --bootstrap-server {B} upgrade --feature metadata.version=99",
    "kafka-features --bootstrap-server {B} upgrade --feature nothing=x",
    "kafka-features --bootstrap-server {B} disable --feature nothing",
    "kafka-features --bootstrap-server {B} upgrade",
    "kafka-features --bootstrap-server {B} describe --node-id -1",
    "kafka-features --bootstrap-server {B} upgrade --release-version 4.4",
    "kafka-features --bootstrap-server {B} upgrade --release-version 4.2-IV1 --dry-run",
    "kafka-features --bootstrap-server {B} upgrade --release-version 3.9",
    "kafka-features --bootstrap-server {B} downgrade --release-version 3.9 --dry-run",
    "kafka-features --bootstrap-server {B} upgrade --release-version 4.4 --feature group.version=1",
    "kafka-features --bootstrap-server {B} upgrade --release-version 4.4 --metadata 4.3-IV0",
    "kafka-features --bootstrap-server {B} disable --release-version 4.4",
    "kafka-features --bootstrap-server {B} version-mapping",
    "kafka-cluster list-endpoints --bootstrap-server {B}",
    "kafka-cluster list-endpoints --bootstrap-server {B} --include-fenced-brokers",
    "kafka-cluster list-endpoints --bootstrap-controller {B} --include-fenced-brokers",
    "kafka-cluster unregister-controller --bootstrap-server {B} --id 9",
    "kafka-cluster unregister-controller --bootstrap-server {B} --id 1",
    "kafka-metadata-quorum --bootstrap-server {B} add-controller",
    *(
        f"kafka-metadata-quorum --bootstrap-server {{B}} remove-controller -i {words}"
        for words in (
            f"-1 -d {_DIRECTORY}", "9 -d short", "9 -d bad?", "9 -d even", f"9 -d {_DIRECTORY}{_DIRECTORY}",
            f"9 -d {_DIRECTORY} --dry-run",
            f"9 -d {_DIRECTORY} --dry-run --unregister", f"9 -d {_DIRECTORY}", f"9 -d {_DIRECTORY} --unregister",
        )
    ),
    "kafka-consumer-perf-test --bootstrap-server {B} --num-records 1 --topic a --include b",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --metrics a.,b. --interval 1000",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --match client_id=a,client_source_port=1",
    "kafka-client-metrics --bootstrap-server {B} --describe --name {}",
    "kafka-client-metrics --bootstrap-server {B} --list",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --interval= --metrics=",
    "kafka-client-metrics --bootstrap-server {B} --describe --name {}",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --interval 1",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --match odd",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --match odd=a",
    "kafka-client-metrics --bootstrap-server {B} --delete --name {}",
    "kafka-client-metrics --bootstrap-server {B} --delete --name {}",
    "kafka-client-metrics --bootstrap-server {B} --describe --name {}",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --interval soon",
    "kafka-client-metrics --bootstrap-server {B} --alter --interval 1000",
    "kafka-client-metrics --bootstrap-server {B} --alter --name {} --generate-name",
    "kafka-client-metrics --bootstrap-server {B} --delete",
    "kafka-client-metrics --bootstrap-server {B} --delete --name {} --interval 1",
    "kafka-client-metrics --bootstrap-server {B} --list --name {}",
    "kafka-client-metrics --bootstrap-server {B} --list --describe",
    "kafka-client-metrics --bootstrap-server {B}",
    "kafka-client-metrics --list",
    "kafka-topics --bootstrap-server {B} --delete --topic {}",
)  # fmt: skip
"""Commands that print the same on Kafka 4 and on this broker."""
_WITHOUT_A_BROKER = (
    *(
        f"kafka-features --bootstrap-server a:1 version-mapping --release-version {release}"
        for release in (
            "3.3", "3.3-IV3", "3.4", "3.7", "3.8", "3.9", "4.0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.1", "4.1-IV0",
            "4.2", "4.2-IV0", "4.3", "4.3-IV0", "4.4", "4.4-IV0",
        )
    ),
    *(
        f"kafka-features --bootstrap-server a:1 feature-dependencies{features}"
        for features in (
            "", " --feature odd=1", " --feature odd", " --feature share.version=x", " --feature group.version=2",
            " --feature metadata.version=5", " --feature metadata.version=30 --feature kraft.version=1",
            " --feature transaction.version=2 --feature eligible.leader.replicas.version=1 --feature group.version=-1",
        )
    ),
    *(
        f"kafka-consumer-groups --validate-regex {pattern}"
        for pattern in (
            "a.*", "a(", "(?=a)", "(?<a", "(?P<a>x)(?P<a>y)", "(?i", "[a", "[z-a]", "[[:odd:]]", "a**", "*a", "a{3,2}",
            "a\\", r"\8", r"\x", r"\pX", r"[\k]", "[\\", "a|*", "(?-)", "a{1", "[]", "(?U)a+", "a*?+", "((((a",
        )
    ),
    "kafka-consumer-groups --bootstrap-server a:1 --validate-regex a --group b",
)  # fmt: skip
"""Commands that do not contact a broker."""
_OF_CONTROLLERS = (
    "kafka-cluster cluster-id --bootstrap-controller {B}",
    "kafka-cluster list-endpoints --bootstrap-controller {B}",
    "kafka-acls --bootstrap-controller {B} --list",
    "kafka-acls --bootstrap-controller {B} --list --bootstrap-server {B}",
    "kafka-reassign-partitions --bootstrap-controller {B} --list",
    "kafka-features --bootstrap-controller {B} upgrade --feature share.version=9",
    "kafka-features --bootstrap-controller {B} describe --node-id -1",
)
"""Commands that contact a KRaft controller."""
_OTHER_FORM = {
    "kafka-topics --version": (jars.NEWEST, "3.9.1"),
    "kafka-topics --bootstrap-server {B} --describe --topic none": ("'none'", "'Optional[none]'"),
    "kafka-get-offsets --bootstrap-server {B} --time soon": ("earliest-pending-upload", "-5 or latest-tiered, or"),
    "kafka-configs --bootstrap-server {B} --alter --entity-type topics --add-config a=b": ("An ent", "an ent"),
    "kafka-consumer-groups --bootstrap-server {B} --delete --group none": (
        "due to: org.apache.kafka", "due to: java.util.concurrent.ExecutionException: org.apache.kafka",
    ),
    "kafka-configs --bootstrap-server {B} --describe --entity-type odd": ("groups", "client-metrics with"),
    "kafka-configs --describe": ("Either --bootstrap-server", "At least one entity type"),
    "kafka-consumer-groups --bootstrap-server {B} --describe --group none": (
        "GroupIdNotFoundException", "Consumer group 'none' does not exist.",
    ),
    "kafka-reassign-partitions --list": ("Please specify either", "Please specify --bootstrap-server"),
    "kafka-acls --list": ("One of --bootstrap-server", "authorizer-properties"),
    "kafka-features --bootstrap-server {B} upgrade --metadata odd": ("Unknown metadata", "Unsupported metadata"),
    "kafka-features --bootstrap-server {B} upgrade --release-version 3.2": ("4.5-IV0", "4.4-IV1, 4.4-IV2"),
    "kafka-consumer-groups --bootstrap-server {B} --list --validate-regex a": (
        ", --validate-regex", "--reset-offsets, --delete-offsets",
    ),
}  # fmt: skip
"""Commands whose text changed in Kafka 4: parts of Kafka 4's text and of ours, which is that of Kafka 3.9."""


_FEATURES = (
    *(
        f"{command} --feature {name}={level}"
        for name, last in (
            ("share.version", 2), ("streams.version", 1), ("group.version", 1), ("transaction.version", 2),
            ("eligible.leader.replicas.version", 1),
        )
        for command, level in (("upgrade", 0), ("downgrade", 0), ("upgrade", 9), ("downgrade", last), ("upgrade", last))
    ),
    *(
        f"upgrade {' '.join(f'--feature {feature}' for feature in features.split())}"
        for features in (
            "share.version=9 group.version=9 transaction.version=9 streams.version=9",
            "streams.version=9 transaction.version=9 group.version=9",
            "group.version=9 metadata.version=99", "metadata.version=99 share.version=9 odd=1",
            "kraft.version=9 eligible.leader.replicas.version=9", "a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1",
            "m=1 group.version=9 l=1 k=1 share.version=9 j=1 i=1 h=1 g=1 f=1 e=1 d=1 c=1 b=1",
        )
    ),
    "downgrade --feature share.version=0 --dry-run",
    "disable --feature share.version",
    "upgrade --feature kraft.version=1",
    "downgrade --feature kraft.version=0",
    *(
        f"{command} --release-version {release}"
        for release in ("4.4", "4.3", "4.2", "4.1", "3.9") for command in ("upgrade", "downgrade")
    ),
    "upgrade --release-version 4.4 --dry-run",
)  # fmt: skip
"""Feature changes made with Kafka's own tool. They leave all features at their highest levels."""


class _ByController(RealKafka):
    """A Kafka that records the address of its controller."""

    controller = ""

    def listeners(self, port: int, controller: int) -> dict[str, str]:
        """Return the addresses of the broker and the controller."""
        self.controller = f"127.0.0.1:{controller}"
        return super().listeners(port, controller)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_ByController]:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with closing(_ByController(tmp_path_factory.mktemp("newest"), libs)) as kafka:
        kafka.start()
        Librdkafka(kafka.bootstrap).create_topic(_TOPIC, 1)
        yield kafka


@pytest.fixture(scope="module")
def newest_kafka(started: _ByController) -> str:
    return started.bootstrap


@pytest.fixture(scope="module")
def newest_minibroker() -> Iterator[str]:
    with Broker(config={"node.id": "1", "minibroker.emulate": "4.4", **NO_RETENTION, **KEEPS_RECORDS}) as broker:
        broker.create_topic(_TOPIC)
        yield broker.bootstrap_servers


@pytest.fixture(params=["minibroker", pytest.param("kafka", marks=pytest.mark.torture)])
def address(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"newest_{request.param}")
    return address


@pytest.mark.parametrize("version", [3, 4, 5])
def test_clients_are_told_of_the_apis_and_features_of_kafka_4(
    newest_kafka: str, newest_minibroker: str, version: int
) -> None:
    assert _fetch_versions(newest_minibroker, version) == _fetch_versions(newest_kafka, version)


def _fetch_versions(bootstrap: str, version: int) -> tuple[dict[int, tuple[int, int]], list[tuple[str, int, int]]]:
    """Return the version range of each API, and the supported and finalized features, from ApiVersions."""
    with SocketClient(address_of(bootstrap)) as client:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = client.ask(request, version)
    assert answer.error_code == 0
    features = [(feature.name, feature.min_version, feature.max_version) for feature in answer.supported_features]
    features += [
        (feature.name, feature.min_version_level, feature.max_version_level) for feature in answer.finalized_features
    ]
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}, sorted(features)


def test_these_commands_print_the_same_as_kafka_4(newest: NewestTools, address: str) -> None:
    Comparison(newest, address).compare(*_SAME)


def test_commands_that_need_no_broker_print_the_same_as_kafka_4(newest: NewestTools) -> None:
    Comparison(newest, "").compare(*_WITHOUT_A_BROKER)


def test_records_of_a_warmup_have_no_part_in_the_second_summary(newest: NewestTools, address: str) -> None:
    words = ["kafka-producer-perf-test", "--topic", _TOPIC, "--bootstrap-server", address, "--record-size", "100"]
    words += ["--num-records", "30", "--throughput", "-1", "--warmup-records", "29"]
    forms = [
        [re.sub(r"\d+", "N", line) for line in text.splitlines() if "records" in line]
        for text in (newest.run(*words).text, run_tool(*words).out)
    ]
    assert forms[1] == forms[0]
    counts = [line.split(" sent")[0] for line in run_tool(*words).out.splitlines()[1:]]
    assert counts == ["30 records", "1 steady state records"]


def test_figures_are_printed_as_often_as_asked_for(newest_minibroker: str) -> None:
    words = ["kafka-producer-perf-test", "--topic", _TOPIC, "--bootstrap-server", newest_minibroker]
    words += ["--record-size", "20000", "--num-records", "40", "--throughput", "-1", "--reporting-interval", "1"]
    lines = run_tool(*words, "--warmup-records", "20").out.splitlines()
    announced = lines.index("In steady state.")
    assert all(re.match(r"\d+ records sent, .* max latency\.$", line) for line in lines[1:announced])
    assert sum(int(line.split()[0]) for line in lines[1:announced]) <= 21
    assert lines[-1].startswith("20 steady state records sent, ")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--warmup-records 9", "must be strictly fewer than"),
        ("--reporting-interval 0", "should be greater than zero"),
        ("--record-key-range 0", "should be greater than zero"),
        ("--record-key-range 9", "must be 'range' or 'random'"),
        ("--key-distribution range", "--record-key-range is required"),
        ("--key-distribution odd", "argument --key-distribution: invalid choice: 'odd'"),
    ],
)
def test_a_warmup_is_shorter_than_the_test_and_an_interval_not_zero(
    newest: NewestTools, newest_minibroker: str, option: str, message: str
) -> None:
    words = ["kafka-producer-perf-test", "--topic", _TOPIC, "--bootstrap-server", newest_minibroker]
    words += ["--record-size", "1", "--num-records", "9", "--throughput", "-1", *option.split()]
    kafka_output, our_output = newest.run(*words), run_tool(*words)
    assert our_output.status == kafka_output.status == 1
    assert message in " ".join(kafka_output.text.split())
    assert message in our_output.err


def test_a_controller_is_asked_as_by_kafka_4(newest: NewestTools, started: _ByController) -> None:
    Comparison(newest, started.controller).compare(*_OF_CONTROLLERS)


def test_these_commands_keep_the_text_of_kafka_3(newest: NewestTools, address: str) -> None:
    for call, (kafka_output, our_output) in _OTHER_FORM.items():
        words = call.replace("{B}", address).split()
        answer, printed = newest.run(*words), run_our_tool(*words)
        assert printed.status == answer.status, call
        assert kafka_output in answer.text, call
        assert our_output in " ".join(printed.lines), call
        assert kafka_output not in " ".join(printed.lines), call


def test_all_features_and_their_levels_are_those_of_kafka_4(newest: NewestTools, address: str) -> None:
    words = ("kafka-features", "--bootstrap-server", address, "describe", "--node-id", "1")
    kafka_output = [line.split()[:-2] for line in newest.run(*words).text.splitlines() if line.startswith("Feature:")]
    our_output = [line.split()[:-2] for line in run_tool(*words).out.splitlines()]
    assert len(our_output) > 1
    assert our_output == kafka_output


def test_kafkas_tool_changes_features_here_as_there(
    newest: NewestTools, newest_kafka: str, newest_minibroker: str
) -> None:
    for call in (*_FEATURES, "describe"):
        answers = [
            newest.run("kafka-features", "--bootstrap-server", bootstrap, *call.split())
            for bootstrap in (newest_minibroker, newest_kafka)
        ]
        our_output, kafka_output = ((re.sub(r"Epoch: \d+", "Epoch", run.text), run.status) for run in answers)
        assert our_output == kafka_output, call


def test_the_apis_of_a_cluster_are_those_that_kafkas_tool_prints(newest: NewestTools, address: str) -> None:
    words = ("kafka-cluster", "api-versions", "--bootstrap-server", address)
    our_output, kafka_output = (
        {line.strip(" \t,") for line in text.splitlines() if line.startswith("\t") and "UNSUPPORTED" not in line}
        for text in (run_tool(*words).out, newest.run(*words).text)
    )
    assert len(our_output) > 60
    assert our_output - kafka_output == kafka_output - our_output == set()


_CONTROLLER = {
    "node.id": "3000",
    "process.roles": "controller",
    "listeners": "CONTROLLER://:9093,OTHER://[::1]:9094",
    "controller.listener.names": "CONTROLLER,other",
}


@pytest.mark.parametrize(
    "missing", ["", "node.id", "process.roles", "listeners", "controller.listener.names", "log.dirs"]
)
def test_a_controller_is_described_by_its_configuration(
    newest: NewestTools, newest_minibroker: str, tmp_path: Path, missing: str
) -> None:
    lines = [f"{key}={value}" for key, value in {**_CONTROLLER, "log.dirs": str(tmp_path)}.items() if key != missing]
    (tmp_path / "file").write_text("\n".join(lines))
    call = f"kafka-metadata-quorum --bootstrap-server {{B}} --command-config {tmp_path}/file add-controller"
    Comparison(newest, newest_minibroker).compare(f"{call} --dry-run")
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=3000\ncluster.id=x\ndirectory.id={_DIRECTORY}\n")
    Comparison(newest, newest_minibroker).compare(f"{call} --dry-run", call)


@pytest.mark.parametrize("release", ["3.9", "4.4"])
def test_another_number_of_replicas_is_refused_where_that_is_asked_for(
    newest: NewestTools, tmp_path: Path, release: str
) -> None:
    with Broker(brokers=3, config={"minibroker.emulate": release, **NO_RETENTION}) as broker:
        broker.create_topic(_TOPIC)
        for name, replicas in (("more", [1, 2]), ("other", [2])):
            plan = {"partitions": [{"topic": _TOPIC, "partition": 0, "replicas": replicas}]}
            (tmp_path / name).write_text(json.dumps(plan))
            call = f"--execute --reassignment-json-file {tmp_path / name} --disallow-replication-factor-change"
            words = ("kafka-reassign-partitions", "--bootstrap-server", broker.bootstrap_servers, *call.split())
            answer, printed = run_kafka_tool(newest, *words), run_our_tool(*words)
            assert printed.status == answer.status
            refused = [line for line in answer.lines if line.startswith(("Error", _TOPIC))]
            assert [line for line in printed.lines if line.startswith(("Error", _TOPIC))] == refused
            assert bool(refused) == (release == "3.9" or name == "more")
