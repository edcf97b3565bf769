"""A directory that Kafka 3.9.1 wrote is served by this broker, and goes back to Kafka."""

import functools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from minibroker import Broker
from tests.kafka.answers import Answers, all_answers, answers
from tests.kafka.dumps import check_directory
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.kafka.writers import (
    MOVED_TO,
    TOPICS,
    TRANSACTIONAL,
    create,
    delete_before,
    write,
    write_all,
    write_transactions,
)
from tests.sparse_copies import copy_directory
from tests.sweeps import one_in

NAMES: Final = [*TOPICS, *TRANSACTIONAL]
ENDS: Final = ["killed", "stopped"]

every_topic = pytest.mark.parametrize("topic", NAMES)
however_it_ended = pytest.mark.parametrize("end", one_in(2, ENDS))


class Left(NamedTuple):
    """A directory that Kafka left, and what it answered when it was started there again."""

    path: Path
    answers: dict[str, Answers]


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    running = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs)
    yield running
    running.close()


@pytest.fixture(scope="module")
def left(kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """Kafka's directory after a kill, and then after a start and a stop."""
    kafka.start()
    create(kafka.bootstrap, {**TOPICS, **TRANSACTIONAL})
    write_all(kafka.bootstrap, kafka.data_dir / "cleaner-offset-checkpoint")
    write_transactions(kafka.bootstrap)
    kafka.kill()
    copies = tmp_path_factory.mktemp("left")
    copy_directory(kafka.data_dir, copies / "killed")
    kafka.start()
    after_the_kill = all_answers(kafka.bootstrap, NAMES)
    delete_before(kafka.bootstrap, "moved", MOVED_TO)  # the checkpoint did not know of it yet
    after_the_stop = all_answers(kafka.bootstrap, NAMES)
    kafka.stop()
    copy_directory(kafka.data_dir, copies / "stopped")
    return {"killed": Left(copies / "killed", after_the_kill), "stopped": Left(copies / "stopped", after_the_stop)}


@pytest.fixture(scope="module")
def served(left: dict[str, Left], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Broker]]:
    """A function that serves a copy of a directory."""
    with ExitStack() as ends:

        @functools.cache
        def serve(end: str) -> Broker:
            directory = tmp_path_factory.mktemp("served") / end
            copy_directory(left[end].path, directory)
            return ends.enter_context(Broker(data_dir=str(directory), config={"log.retention.ms": "-1"}))

        yield serve


Serve = Callable[[str], Broker]


@every_topic
@however_it_ended
def test_kafkas_records_are_served_as_kafka_serves_them(
    served: Serve, left: dict[str, Left], end: str, topic: str
) -> None:
    theirs = left[end].answers[topic]
    ours = answers(served(end).bootstrap_servers, topic, list(theirs.times))
    assert ours == theirs


def test_the_directory_holds_all_that_matters(left: dict[str, Left]) -> None:
    """The tests above mean something only if Kafka has written it so."""
    found = left["stopped"].answers
    assert found["moved"].beginning == MOVED_TO
    assert len(found["compacted"].records) < found["compacted"].end // 2
    assert len(found["transactions"].committed) < len(found["transactions"].records)
    assert found["ongoing"].last_stable_offset < found["ongoing"].end
    assert {line.timestamp_type for line in found["append-time"].records} == {2}
    for topic in ("segments", "moved", "compacted", "transactions", "gzip"):
        assert len(list((left["stopped"].path / f"{topic}-0").glob("*.log"))) > 1, topic
    assert list((left["stopped"].path / "transactions-0").glob("*.txnindex"))


@pytest.mark.torture
def test_what_we_append_goes_back_to_kafka(
    left: dict[str, Left], kafka: RealKafka, oracle: Oracle, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    copy_directory(left["stopped"].path, directory)
    with Broker(data_dir=str(directory), config={"log.retention.ms": "-1"}) as broker:
        for topic in NAMES:
            write(broker.bootstrap_servers, topic, 10, batch=3, start=1_000, idempotent=topic in {"segments", "recent"})
        ours = {topic: answers(broker.bootstrap_servers, topic, [0]) for topic in NAMES}
    for topic, answer in ours.items():
        assert answer.end == left["stopped"].answers[topic].end + 10
        check_directory(oracle, directory / f"{topic}-0", compacted=topic == "compacted")
    shutil.rmtree(kafka.data_dir)
    copy_directory(directory, kafka.data_dir)
    kafka.start()
    assert {topic: answers(kafka.bootstrap, topic, [0]) for topic in NAMES} == ours
    kafka.stop()
