"""Real clients through `minibroker trace` in front of Apache Kafka."""

import json
import re
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer

from tests.broker.control.http import Control
from tests.clients.conftest import CLIENTS
from tests.clients.contract import Message
from tests.clients.trace_process import TraceProcess
from tests.kafka.real_kafka import RealKafka
from tests.patience import PATIENCE_S

PARTITIONS: Final = 2
MESSAGES: Final = [Message(b"value %d" % number, partition=number % PARTITIONS) for number in range(40)]


def test_clients_work_through_it_and_everything_is_read(real_kafka: RealKafka, tmp_path: Path) -> None:
    to = real_kafka.bootstrap
    with TraceProcess(to, tmp_path) as trace:
        for kind, make in CLIENTS.items():
            client, topic = make(trace.bootstrap), f"orders-{kind}"
            client.create_topic(topic, PARTITIONS)
            client.produce(topic, MESSAGES, idempotent=True)
            for partition in range(PARTITIONS):
                expected = [message.value for message in MESSAGES if message.partition == partition]
                assert [each.value for each in client.consume(topic, len(expected), partition=partition)] == expected
    entries = trace.entries()
    unread = [entry for entry in entries if "requestBytes" in entry or "responseBytes" in entry]
    assert not unread
    shown = {entry["api"] for entry in entries}
    assert {"ApiVersions", "Metadata", "Produce", "Fetch", "CreateTopics", "InitProducerId"} <= shown
    replaced = [entry["replaced"] for entry in entries if "replaced" in entry]
    assert replaced
    assert all(each == {to: trace.bootstrap} for each in replaced)


class _ChaosProcess(TraceProcess):
    """A proxy under chaos, which reports it when it ends."""

    harmless = re.compile(r"chaos \d+: |request \d+: |not exercised")


@pytest.mark.torture  # tests/broker/trace/test_faults.py has a run in front of this broker
def test_chaos_in_the_proxy_loses_and_doubles_nothing(real_kafka: RealKafka, tmp_path: Path) -> None:
    to = real_kafka.bootstrap
    reports = ""
    for seed in range(1, 9):
        topic = f"chaos-{seed}"
        CLIENTS["librdkafka"](to).create_topic(topic, 1)
        with _ChaosProcess(to, tmp_path, ["--chaos", f"{seed}"]) as trace:
            config = {"bootstrap.servers": trace.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100}
            producer = Producer({**config, "enable.idempotence": True, "linger.ms": 0})
            for number in range(20):
                producer.produce(topic, b"%d" % number)
                assert producer.flush(PATIENCE_S) == 0
            consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
            consumer.subscribe([topic])
            read: list[bytes | None] = []
            while len(read) < 20:
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                if message.error() is None:
                    read.append(message.value())
            consumer.close()
        assert read == [b"%d" % number for number in range(20)]
        reports += trace.stderr.read_text()
    assert len(set(re.findall(r"^request \d+: (\S+)", reports, re.MULTILINE))) > 3, reports
    assert "; the client " in reports


@pytest.mark.torture
def test_the_page_shows_requests_fields_and_groups(real_kafka: RealKafka, tmp_path: Path) -> None:
    to = real_kafka.bootstrap
    with TraceProcess(to, tmp_path, ["--page", "127.0.0.1:0"]) as trace:
        page = Control(trace.words["page"])
        client = CLIENTS["librdkafka"](trace.bootstrap)
        client.create_topic("paged", 1)
        client.produce("paged", [Message(b"<script>", partition=0)])
        consumer = Consumer(
            {"bootstrap.servers": trace.bootstrap, "group.id": "pager", "client.id": "reader"}
            | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe(["paged"])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
        rows = page.get(f"/data/requests/rows?first=1&last={page.get('/data/requests')['last']}")["rows"]
        newest = {each["api"]: each for each in rows if each["state"] == "ok"}
        produced = page.get(f"/data/requests/{newest['Produce']['number']}")
        assert b"<script>".hex() in produced["request"]["hex"]
        fields = json.dumps(produced["request"]["tree"])
        assert "base_sequence" in fields
        assert '"ERROR"' not in fields
        commit = newest["OffsetCommit"]["number"]
        moment = page.get(f"/data/timeline/{commit}")
        (group,) = moment["groups"]
        assert (group["group_id"], group["members"]) == ("pager", ["reader"])
        assert group["offsets"] == [{"topic": "paged", "partition": 0, "offset": 1}]
        logs = {each["topic"]: each for each in moment["logs"]}
        assert (logs["paged"]["end"], logs["paged"]["high_watermark"]) == (1, 1)
        kinds = {each["kind"] for each in page.get("/data/timeline")["events"]}
        assert "rebalance" in kinds
        for path in ("/data/logs", "/data/state", "/data/actions", "/data/follow/paged/0/0"):
            assert page.ask("GET", path).status == 404
        consumer.close()
