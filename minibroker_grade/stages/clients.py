"""Stage 12: unmodified clients. Each runs in its own process and is skipped if it is not installed."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from typing import Final

from minibroker_grade.check import CheckFailedError, SkippedError, Stage
from minibroker_grade.groups import wait_for_coordinator
from minibroker_grade.subject import Subject

STAGE: Final = Stage("clients", "12 Clients", "librdkafka, kafka-python and the Java client work unmodified.")
_LIMIT_S: Final = 120.0
_LOOK: Final = "Run `minibroker trace` between the client and your broker. Its last request is the one that failed."
_JARS: Final = "KAFKA_LIBS"
_MAX_OUTPUT_CHARACTERS: Final = 2000

_LIBRDKAFKA: Final = """
    import sys
    from confluent_kafka import Consumer, Producer
    server, topic, group, transactional = sys.argv[1:]
    settings = {"bootstrap.servers": server, "enable.idempotence": True}
    if transactional:
        settings["transactional.id"] = transactional
    producer = Producer(settings)
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    for at in range(10):
        producer.produce(topic, f"v{at}", key=str(at))
    if transactional:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0, "records are left"
    consumer = Consumer({"bootstrap.servers": server, "group.id": group, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "isolation.level": "read_committed"})
    consumer.subscribe([topic])
    seen = []
    while len(seen) < 10:
        message = consumer.poll(1)
        if message is not None and not message.error():
            seen.append(message.value().decode())
    committed = consumer.commit(asynchronous=False)
    assert sum(each.offset for each in committed) >= 10, committed
    consumer.close()
    assert seen == [f"v{at}" for at in range(10)], seen
"""
_KAFKA_PYTHON: Final = """
    import sys
    from kafka import KafkaConsumer, KafkaProducer
    server, topic, group, _ = sys.argv[1:]
    producer = KafkaProducer(bootstrap_servers=server)
    for at in range(10):
        producer.send(topic, f"v{at}".encode()).get(30)
    producer.close()
    consumer = KafkaConsumer(topic, bootstrap_servers=server, group_id=group, auto_offset_reset="earliest",
                             enable_auto_commit=False)
    seen = [next(consumer).value.decode() for _ in range(10)]
    consumer.commit()
    consumer.close()
    assert seen == [f"v{at}" for at in range(10)], seen
"""
_JAVA: Final = """
    import java.time.Duration;
    import java.util.*;
    import org.apache.kafka.clients.consumer.*;
    import org.apache.kafka.clients.producer.*;
    import org.apache.kafka.common.serialization.*;

    public class Graded {
        public static void main(String[] given) throws Exception {
            Map<String, Object> own = new HashMap<>();
            own.put("bootstrap.servers", given[0]);
            own.put("group.id", given[2]);
            own.put("auto.offset.reset", "earliest");
            own.put("isolation.level", "read_committed");
            if (!given[3].isEmpty()) own.put("transactional.id", given[3]);
            var text = new StringSerializer();
            try (var producer = new KafkaProducer<String, String>(own, text, text)) {
                if (!given[3].isEmpty()) { producer.initTransactions(); producer.beginTransaction(); }
                for (int at = 0; at < 10; at++) producer.send(new ProducerRecord<>(given[1], "v" + at)).get();
                if (!given[3].isEmpty()) producer.commitTransaction();
            }
            own.remove("transactional.id");
            List<String> seen = new ArrayList<>();
            var read = new StringDeserializer();
            try (var consumer = new KafkaConsumer<String, String>(own, read, read)) {
                consumer.subscribe(List.of(given[1]));
                while (seen.size() < 10)
                    for (var record : consumer.poll(Duration.ofSeconds(1))) seen.add(record.value());
                consumer.commitSync();
            }
            for (int at = 0; at < 10; at++)
                if (!seen.get(at).equals("v" + at)) throw new IllegalStateException(seen.toString());
        }
    }
"""

_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for a JVM that ends too soon for an optimizing compiler."""


def _run_python(b: Subject, module: str, name: str, program: str, *, transactional: bool = False) -> None:
    if importlib.util.find_spec(module) is None:
        raise SkippedError(f"{name} is not installed")
    _run_client(b, [sys.executable, "-c", textwrap.dedent(program)], transactional=transactional)


def _run_java(b: Subject, *, transactional: bool) -> None:
    java = shutil.which("java")
    jars = os.environ.get(_JARS)
    if java is None:
        raise SkippedError("there is no java on the PATH")
    if not jars:
        raise SkippedError(f"{_JARS} does not name a folder with the jars of Kafka's Java client")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "Graded.java")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(_JAVA))
        _run_client(b, [java, *_JVM, "-cp", os.path.join(jars, "*"), path], transactional=transactional)


def _run_client(b: Subject, command: list[str], *, transactional: bool) -> None:
    """Run a client that produces, consumes in a group, and commits."""
    topic, group = b.topic(), b.name("group")
    wait_for_coordinator(b, group)
    name = b.name("tx") if transactional else ""
    arguments = [*command, f"{b.address[0]}:{b.address[1]}", topic, group, name]
    try:
        process = subprocess.run(  # noqa: S603 - one of the programs above
            arguments, capture_output=True, text=True, timeout=b.remaining_s(), check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        text = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else ""
        raise CheckFailedError("ten records, there and back", f"no end within the limit: {_clip(text)}") from None
    if process.returncode:
        raise CheckFailedError("ten records, there and back", f"status {process.returncode}: {_clip(process.stderr)}")


def _clip(text: str) -> str:
    return text.strip()[-_MAX_OUTPUT_CHARACTERS:]


@STAGE.check("librdkafka", look=_LOOK, limit=_LIMIT_S)
def librdkafka_produces_and_consumes(b: Subject) -> None:
    """The client library for C, Python, Go and .NET runs an idempotent producer, a group, and a commit."""
    _run_python(b, "confluent_kafka", "confluent-kafka", _LIBRDKAFKA)


@STAGE.check("librdkafka", look=_LOOK, limit=_LIMIT_S)
def librdkafka_runs_a_transaction(b: Subject) -> None:
    """A client of librdkafka runs a transactional producer, and a consumer with read_committed."""
    _run_python(b, "confluent_kafka", "confluent-kafka", _LIBRDKAFKA, transactional=True)


@STAGE.check("kafka-python", look=_LOOK, limit=_LIMIT_S)
def kafka_python_produces_and_consumes(b: Subject) -> None:
    """The pure Python client runs a producer, a group and a commit."""
    _run_python(b, "kafka", "kafka-python", _KAFKA_PYTHON)


@STAGE.check("KafkaProducer, KafkaConsumer", look=_LOOK, limit=_LIMIT_S)
def the_java_client_produces_and_consumes(b: Subject) -> None:
    """Kafka's own client runs an idempotent producer, a group, and a commit."""
    _run_java(b, transactional=False)


@STAGE.check("KafkaProducer.commitTransaction", look=_LOOK, limit=_LIMIT_S)
def the_java_client_runs_a_transaction(b: Subject) -> None:
    """Kafka's own client runs a transactional producer, and a consumer with read_committed."""
    _run_java(b, transactional=True)
