"""Clients that stay connected while the state of their broker is replaced: one adapter for each client.

A name of a role stands for a producer (`plain`, `idempotent`, `transactional`) or a consumer (`assigned`, `strict`,
which is told where its offset does not exist, and the members `classic` and `consumer`, by the group's protocol). The
client of a role is made at its first use. Every method raises StayError with what the client says.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, ClassVar, Final

import aiokafka  # type: ignore[import-untyped]  # no types
import confluent_kafka as rdkafka
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # no types
from confluent_kafka.admin import AdminClient

from tests.clients.contract import TIMEOUT
from tests.clients.java_programs import client_command
from tests.clients.kafka_python_client import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    kafka_errors,
)
from tests.clients.transactors import TransactionError, Transactor, TransactorOptions, TransactorProgram

MEMBERS: Final = ("classic", "consumer")


class StayError(Exception):
    """The error that a client gives to its program."""


class Staying(ABC):
    """All producers and consumers of one client library."""

    roles: tuple[str, ...] = ("plain", "idempotent", "transactional", "assigned", "strict", "classic", "consumer")
    errors: ClassVar[tuple[type[Exception], ...]]

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._clients: dict[str, Any] = {}
        self._ends = ExitStack()

    def send(self, role: str, topic: str, value: str) -> None:
        """Produce a record to partition 0 and wait for its acknowledgement."""
        with self._told():
            self._send(role, topic, value)

    def begin(self, topic: str, value: str) -> None:
        """Begin a transaction with a record."""
        with self._told():
            self._begin()
            self._send("transactional", topic, value)

    def commit(self) -> None:
        """Commit the transaction."""
        with self._told():
            self._commit()

    def read(self, role: str, topic: str, until: str) -> list[str]:
        """Return the next values up to this one. Members commit their offsets then."""
        with self._told():
            return self._read(role, topic, until)

    @abstractmethod
    def topics(self) -> list[str]:
        """Return the names of all topics."""

    def close(self) -> None:
        """Close all clients."""
        self._ends.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            raise StayError(repr(error)) from None

    def _client(self, role: str, make: Callable[[], Any]) -> Any:
        if role not in self._clients:
            self._clients[role] = make()
        return self._clients[role]

    @abstractmethod
    def _send(self, role: str, topic: str, value: str) -> None: ...

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _read(self, role: str, topic: str, until: str) -> list[str]: ...


class JavaStaying(Staying):
    """Kafka's own client."""

    errors: ClassVar = (TransactionError,)

    def __init__(self, bootstrap: str, name: str, version: str) -> None:
        super().__init__(bootstrap, name)
        if version < "4":
            self.roles = tuple(role for role in self.roles if role != "consumer")
        program = TransactorProgram(f"java-{version}", lambda: client_command("Stayer", version))
        self._process = Transactor(program, TransactorOptions(bootstrap, name))
        self._ends.callback(self._process.close)

    def begin(self, topic: str, value: str) -> None:
        with self._told():
            self._process.ask("begin", kind="transactional", topic=topic, value=value)

    def topics(self) -> list[str]:
        return list(self._process.ask("topics")["values"])

    def _send(self, role: str, topic: str, value: str) -> None:
        self._process.ask("send", kind=role, topic=topic, value=value)

    def _begin(self) -> None:
        raise NotImplementedError  # it begins with a record

    def _commit(self) -> None:
        self._process.ask("commit", kind="transactional")

    def _read(self, role: str, topic: str, until: str) -> list[str]:
        return list(self._process.ask("read", kind=role, topic=topic, value=until)["values"])


class LibrdkafkaStaying(Staying):
    """confluent-kafka, and so librdkafka."""

    errors: ClassVar = (rdkafka.KafkaException,)

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def _producer(self, role: str) -> Any:
        def make() -> rdkafka.Producer:
            options: dict[str, Any] = {"transactional.id": self._name} if role == "transactional" else {}
            idempotence = {"linger.ms": 0, "enable.idempotence": role != "plain"}
            producer = rdkafka.Producer({"bootstrap.servers": self._bootstrap, **idempotence, **options})
            if options:
                producer.init_transactions(TIMEOUT)
            self._ends.callback(producer.purge)
            return producer

        return self._client(role, make)

    def _consumer(self, role: str, topic: str) -> Any:
        def make() -> rdkafka.Consumer:
            options: dict[str, Any] = {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"{self._name}-{role}",
                "auto.offset.reset": "error" if role == "strict" else "earliest",
                "enable.auto.commit": False,
            }
            consumer = rdkafka.Consumer({**options, "group.protocol": role} if role in MEMBERS else options)
            if role in MEMBERS:
                consumer.subscribe([topic])
            else:
                consumer.assign([rdkafka.TopicPartition(topic, 0, rdkafka.OFFSET_BEGINNING)])
            self._ends.callback(consumer.close)
            return consumer

        return self._client(role, make)

    def topics(self) -> list[str]:
        return list(self._admin.list_topics(timeout=TIMEOUT).topics)

    def _send(self, role: str, topic: str, value: str) -> None:
        errors: list[rdkafka.KafkaError | None] = []
        producer = self._producer(role)
        producer.produce(topic, value.encode(), partition=0, on_delivery=lambda error, _: errors.append(error))
        assert not producer.flush(TIMEOUT)
        if errors[0] is not None:
            raise rdkafka.KafkaException(errors[0])

    def _begin(self) -> None:
        self._producer("transactional").begin_transaction()

    def _commit(self) -> None:
        self._producer("transactional").commit_transaction(TIMEOUT)

    def _read(self, role: str, topic: str, until: str) -> list[str]:
        values: list[str] = []
        consumer = self._consumer(role, topic)
        while until not in values:
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                raise rdkafka.KafkaException(message.error())
            values.append((message.value() or b"").decode())
        if role in MEMBERS:
            consumer.commit(asynchronous=False)
        return values


class KafkaPythonStaying(Staying):
    """kafka-python."""

    roles = ("plain", "idempotent", "transactional", "assigned", "strict", "classic")
    errors: ClassVar = (kafka_errors.KafkaError,)

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._ends.callback(self._admin.close)

    def _producer(self, role: str) -> Any:
        def make() -> Any:
            options: dict[str, Any] = {"transactional_id": self._name} if role == "transactional" else {}
            producer = KafkaProducer(bootstrap_servers=self._bootstrap, enable_idempotence=role != "plain", **options)
            if role == "transactional":
                producer.init_transactions()
            self._ends.callback(producer.close, timeout=0)
            return producer

        return self._client(role, make)

    def _consumer(self, role: str, topic: str) -> Any:
        def make() -> Any:
            consumer = KafkaConsumer(
                bootstrap_servers=self._bootstrap,
                group_id=f"{self._name}-{role}" if role in MEMBERS else None,
                auto_offset_reset="none" if role == "strict" else "earliest",
                enable_auto_commit=False,
            )
            if role in MEMBERS:
                consumer.subscribe([topic])
            else:
                consumer.assign([TopicPartition(topic, 0)])
                consumer.seek_to_beginning()
            self._ends.callback(consumer.close, autocommit=False)
            return consumer

        return self._client(role, make)

    def topics(self) -> list[str]:
        return list(self._admin.list_topics())

    def _send(self, role: str, topic: str, value: str) -> None:
        self._producer(role).send(topic, value.encode(), partition=0).get(TIMEOUT)

    def _begin(self) -> None:
        self._producer("transactional").begin_transaction()

    def _commit(self) -> None:
        self._producer("transactional").commit_transaction()

    def _read(self, role: str, topic: str, until: str) -> list[str]:
        values: list[str] = []
        consumer = self._consumer(role, topic)
        while until not in values:
            for records in consumer.poll(timeout_ms=100).values():
                values += [record.value.decode() for record in records]
        if role in MEMBERS:
            consumer.commit()
        return values


class AiokafkaStaying(Staying):
    """aiokafka, whose event loop runs in a thread of its own."""

    roles = ("plain", "idempotent", "transactional", "assigned", "strict", "classic")
    errors: ClassVar = (aiokafka.errors.KafkaError, AssertionError)  # an assertion after a fatal error

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        self._ends.callback(self._loop.close)
        self._ends.callback(thread.join)
        self._ends.callback(lambda: self._loop.call_soon_threadsafe(self._loop.stop))

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(call, TIMEOUT), self._loop).result()

    def _stop(self, client: Any) -> None:
        try:
            self._run(client.stop())
        except CancelledError:  # of a consumer's fetch that waits to be repeated: its connections are still open
            self._run(client._client.close())
        except self.errors:
            pass

    async def _producer(self, role: str) -> Any:
        if role not in self._clients:
            options: dict[str, Any] = {"transactional_id": self._name} if role == "transactional" else {}
            self._clients[role] = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self._bootstrap, enable_idempotence=role != "plain", **options
            )
            self._ends.callback(self._stop, self._clients[role])
            await self._clients[role].start()
        return self._clients[role]

    async def _consumer(self, role: str, topic: str) -> Any:
        if role not in self._clients:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                group_id=f"{self._name}-{role}" if role in MEMBERS else None,
                auto_offset_reset="none" if role == "strict" else "earliest",
                enable_auto_commit=False,
            )
            self._clients[role] = consumer
            self._ends.callback(self._stop, consumer)
            await consumer.start()
            if role in MEMBERS:
                consumer.subscribe([topic])
            else:
                consumer.assign([aiokafka.TopicPartition(topic, 0)])
                await consumer.seek_to_beginning()
        return self._clients[role]

    def _send(self, role: str, topic: str, value: str) -> None:
        async def send() -> None:
            await (await self._producer(role)).send_and_wait(topic, value.encode(), partition=0)

        self._run(send())

    def _begin(self) -> None:
        async def begin() -> None:
            await (await self._producer("transactional")).begin_transaction()

        self._run(begin())

    def _commit(self) -> None:
        self._run(self._clients["transactional"].commit_transaction())

    def _read(self, role: str, topic: str, until: str) -> list[str]:
        async def read() -> list[str]:
            consumer, values = await self._consumer(role, topic), list[str]()
            while until not in values:
                values.append((await consumer.getone()).value.decode())
            if role in MEMBERS:
                await consumer.commit()
            return values

        values: list[str] = self._run(read())
        return values

    def topics(self) -> list[str]:
        async def topics() -> list[str]:
            if "admin" not in self._clients:
                admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
                await admin.start()
                self._clients["admin"] = admin
                self._ends.callback(lambda: self._run(admin.close()))
            return list(await self._clients["admin"].list_topics())

        return list(self._run(topics()))


STAYING: Final[dict[str, Callable[[str, str], Staying]]] = {
    "java-4.4.0": partial(JavaStaying, version="4.4.0"),
    "java-3.9.1": partial(JavaStaying, version="3.9.1"),
    "librdkafka": LibrdkafkaStaying,
    "aiokafka": AiokafkaStaying,
    "kafka-python": KafkaPythonStaying,
}
