"""A member with aiokafka."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition  # type: ignore[import-untyped]  # no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # no types
from aiokafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]  # no types

from tests.clients.members.talk import Talk

POLL_MS = 100


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    """Says what the group does with the partitions; it calls those that are lost revoked, too."""

    def __init__(self, talk: Talk, consumer: Any) -> None:
        self._talk = talk
        self._consumer = consumer

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._talk.partitions("assigned", self._consumer.assignment())

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._talk.partitions("revoked", revoked)


async def run(talk: Talk) -> None:
    """Poll until told to close."""
    options = talk.options
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        client_id=options["client_id"],
        group_id=options["group"],
        group_instance_id=options["instance_id"],
        session_timeout_ms=options["session_timeout_ms"],
        heartbeat_interval_ms=options["heartbeat_interval_ms"],
        enable_auto_commit=options["auto_commit"],
        auto_commit_interval_ms=options["auto_commit_interval_ms"],
        auto_offset_reset="earliest",
        client_rack=options["rack"],
    )
    consumer.subscribe(options["topics"], listener=Listener(talk, consumer))
    await consumer.start()
    talk.say("ready")
    while True:
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            for record in records:
                value = (record.value or b"").decode()
                talk.say("record", topic=record.topic, partition=record.partition, offset=record.offset, value=value)
        for command in talk.commands():
            match command["do"]:
                case "commit":
                    talk.say("committed", error=await commit(consumer, command["offsets"]))
                case "offsets":
                    talk.say("offsets", offsets=[await committed(consumer, *each) for each in command["partitions"]])
                case _:
                    await consumer.stop()
                    talk.say("closed")
                    return


async def commit(consumer: Any, offsets: Any) -> str | None:
    """Commit [topic, partition, offset, metadata]. What it complains of, or None."""
    try:
        await consumer.commit(
            {
                TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata)
                for topic, partition, offset, metadata in offsets
            }
        )
    except KafkaError as error:
        return repr(error)
    return None


async def committed(consumer: Any, topic: str, partition: int) -> list[Any]:
    """The committed offset of this partition; this client shows no metadata."""
    return [topic, partition, await consumer.committed(TopicPartition(topic, partition)), None]


if __name__ == "__main__":
    asyncio.run(run(Talk()))
