"""Brokers in several processes are killed or frozen, one after another, while a producer works."""

import random
import re
import signal
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.broker_process import BrokerProcess
from tests.kafka.real_kafka import free_ports
from tests.patience import PATIENCE_S, eventually

SEED = 4
RECORDS = 300
"""The records that are sent before a round, and again while a process is away."""
HOLDER = 0
FREEZE_MEMBER, KILL_HOLDER = (2, signal.SIGSTOP), (HOLDER, signal.SIGKILL)


class Process(BrokerProcess):
    """A broker of the cluster, which says for what it waits."""

    harmless = re.compile("this broker waits for")


class Load:
    """An idempotent producer, and what it has been told."""

    def __init__(self, bootstrap: str) -> None:
        self.sent = [0, 0, 0]
        self.failed: list[Any] = []
        limit_ms = int(PATIENCE_S * 1000)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": limit_ms, "linger.ms": 0}
        )

    def send(self) -> None:
        for number in range(RECORDS):
            partition = number % len(self.sent)
            value = str(self.sent[partition]).encode()
            self._producer.produce("t", value, partition=partition, on_delivery=self._note)
            self.sent[partition] += 1
            self._producer.poll(0)

    def _note(self, error: object, _: object) -> None:
        if error is not None:
            self.failed.append(error)

    def end_round(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0
        assert self.failed == []


def misses(bootstrap: str, node_id: int) -> bool:
    return not sees(bootstrap, node_id)


def sees(bootstrap: str, node_id: int) -> bool:
    """Return whether a broker lists a node, and a leader for each partition."""
    with suppress(ConnectionError), SocketClient(address_of(bootstrap)) as client:
        metadata = client.ask(MetadataRequest(topics=None), 9)
        leaders = [partition.leader_id for topic in metadata.topics for partition in topic.partitions]
        return node_id in {broker.node_id for broker in metadata.brokers} and -1 not in leaders
    return True


@pytest.mark.torture
@pytest.mark.parametrize("rounds", [2, 100])
def test_what_was_acknowledged_survives_kills_and_freezes_of_each_process_once(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(SEED)
    ports = free_ports(6)
    addresses = [f"127.0.0.1:{port}" for port in ports[:3]]
    places = [word for node_id in range(3) for word in ("--meet", f"{node_id}@127.0.0.1:{ports[3 + node_id]}")]
    quick = ("--set", "broker.session.timeout.ms=1000", "--set", "broker.heartbeat.interval.ms=200")
    with ExitStack() as ends:
        processes: list[Process] = []
        for node_id, address in enumerate(addresses):
            link = ("--link", f"127.0.0.1:{ports[3 + node_id]}")
            options = (*places, *link, *quick, "--advertise", address, "--set", f"node.id={node_id}")
            process = Process(tmp_path / str(node_id), options)
            process.bootstrap = address
            processes.append(process)
            ends.callback(process.close)
            process.start()
        admin = AdminClient({"bootstrap.servers": addresses[1]})
        topic = NewTopic("t", 3, replica_assignment=[[0, 1, 2], [1, 2, 0], [2, 0, 1]])
        admin.create_topics([topic])["t"].result(PATIENCE_S)
        load = Load(",".join(addresses))
        for number in range(rounds):
            chosen = (chance.randrange(3), chance.choice([signal.SIGSTOP, signal.SIGKILL]))
            victim, blow = (FREEZE_MEMBER, KILL_HOLDER)[number] if number < 2 else chosen
            load.send()
            if blow == signal.SIGKILL:
                processes[victim].kill()
            else:
                processes[victim].send_signal(blow)
            load.send()
            other = addresses[(victim + 1) % 3]
            eventually(partial(misses, other, victim))
            if blow == signal.SIGKILL:
                processes[victim].start()
            else:
                processes[victim].send_signal(signal.SIGCONT)
            load.end_round()
        consumer = Consumer({"bootstrap.servers": addresses[2], "group.id": "g"})
        consumer.assign([TopicPartition("t", partition, 0) for partition in range(3)])
        read: list[list[int]] = [[], [], []]
        while sum(map(len, read)) < sum(load.sent):
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is None:
                read[message.partition() or 0].append(int(message.value() or b""))
        consumer.close()
        assert read == [list(range(sent)) for sent in load.sent]
