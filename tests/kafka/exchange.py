"""One directory that Kafka and this broker have in turn."""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from tests.clients.broker_process import BrokerProcess
from tests.kafka.real_kafka import RealKafka
from tests.sparse_copies import copy_directory

CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)
_TOPIC_ID: Final = "partition.metadata"
_HARMLESS: Final = (
    "controller event queue overloaded",
    "Exceptionally slow controller event",
    "apiKey=CONTROLLER_REGISTRATION",
    "Reconfiguration failed: No configuration found",
    "partition is not online or is no longer the leader",
)
"""Parts of errors that only come from a slow machine, also of a registration that is repeated until a controller is
elected, from a Log4j 2 that has no file of settings, and from coordinators that load again once their log is open."""


def hand_over(giver: RealKafka | BrokerProcess, taker: RealKafka | BrokerProcess, end: str) -> None:
    """The giver is "stopped" or "killed", and the taker starts on what it leaves."""
    if end == "killed":
        giver.kill()
    elif isinstance(giver, RealKafka):
        giver.stop()
    else:
        giver.terminate()
    shutil.rmtree(taker.data_dir, ignore_errors=True)
    copy_directory(giver.data_dir, taker.data_dir)
    taker.start()


def errors_of(kafka: RealKafka) -> list[str]:
    """The errors in Kafka's log that tell of something wrong."""
    errors = [line for line in kafka.output().splitlines() if " ERROR " in line]
    return [line for line in errors if not any(each in line for each in _HARMLESS)]


def give(kafka: RealKafka, directory: Path, topics: Collection[str]) -> None:
    """Put our partitions of some topics, with their checkpoints, in the place of those of a stopped Kafka."""
    for topic in topics:
        home = kafka.data_dir / f"{topic}-0"
        for path in home.iterdir():
            if path.name != _TOPIC_ID:
                path.unlink()
        for path in (directory / f"{topic}-0").iterdir():
            if path.name != _TOPIC_ID:
                shutil.copy(path, home)
    for name in CHECKPOINTS:
        theirs = read_offset_checkpoint(str(kafka.data_dir / name))
        kept = {place: offset for place, offset in theirs.items() if place[0] not in topics}
        ours = read_offset_checkpoint(str(directory / name))
        given = {place: offset for place, offset in ours.items() if place[0] in topics}
        write_offset_checkpoint(str(kafka.data_dir / name), {**kept, **given})
