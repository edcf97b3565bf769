"""Clients on librdkafka, as confluent-kafka brings it: what a user of that client sees.

The functions return the same plain numbers as `benchmarks.clients.raw`; `bytes` are payload bytes here. `busy` is the
share of the time that the Python loop, not librdkafka's own threads, spent on a CPU. librdkafka's settings are its
defaults but for those named here.
"""

import contextlib
import random
import time

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, Producer, TopicPartition

from benchmarks.clients.batch_producer import BatchProducer
from benchmarks.clients.raw import Address, Stopwatch, percentile
from benchmarks.meter import settle_page_cache
from benchmarks.wire import Connection, WireError


def _bootstrap(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def produce(
    address: Address, pid: int, topic: str, record_size: int, total_bytes: int, *, scratch: str
) -> dict[str, float]:
    """Time a producer from the first queued record to the last acknowledgement.

    Before the clock starts, one record lets the client connect. The client's queue has room for all records, so it
    never refuses one. The log end offset shows whether all were delivered.
    """
    count = total_bytes // record_size
    settings = {
        "bootstrap.servers": _bootstrap(address),
        "queue.buffering.max.messages": "0",
        "queue.buffering.max.kbytes": "2000000",
    }
    with Connection(address) as control:
        producer = BatchProducer(settings, topic, b"0123456789abcdef" * (record_size // 16) + b"0" * (record_size % 16))
        producer.produce(1)
        producer.flush(30)
        before = control.offset(topic, 0)
        settle_page_cache(scratch, total_bytes)
        watch = Stopwatch(pid)
        producer.produce(count)
        producer.flush(120)
        result = watch.read()
        delivered = control.offset(topic, 0) - before
        producer.close()
    if delivered != count:
        raise WireError(f"{count} records were produced, {delivered} are in the log")
    return {**result, "bytes": count * record_size, "records": count}


def _consumer(address: Address, topic: str, offset: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": _bootstrap(address),
            "group.id": "bench",
            "enable.auto.commit": False,
            # By default, a fetcher with a full queue sleeps for a second, and the benchmark would measure that sleep.
            "fetch.queue.backoff.ms": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def consume(address: Address, pid: int, topic: str, record_size: int, count: int) -> dict[str, float]:
    """Time a consumer from its assignment to the start of partition 0 until it has `count` records.

    Records are taken 500 at a time. Their sizes are added up and checked.
    """
    watch = Stopwatch(pid)
    consumer = _consumer(
        address, topic, 0
    )  # OFFSET_BEGINNING would add half a second, in which librdkafka looks it up.
    records = size = 0
    while records < count:
        # Request no more than the remaining records, because consume() waits until it has the requested number.
        batch = consumer.consume(min(500, count - records), 10.0)
        if not batch:
            raise WireError(f"{records} of {count} records came, then none for ten seconds")
        records += len(batch)
        size += sum(map(_size, batch))
    result = watch.read()
    consumer.close()
    if size != count * record_size:
        raise WireError(f"{records} records have {size} bytes")
    return {**result, "bytes": size, "records": records}


def _size(message: Message) -> int:
    try:
        return len(message)
    except TypeError:
        raise KafkaException(message.error()) from None


def tail_latency(address: Address, pid: int, topic: str, count: int, seconds: float) -> dict[str, float]:
    """Measure the time from produce() to the return of the record from poll(), one record at a time.

    `p50` and `p99` are in milliseconds. A producer without linger and a consumer that waits at the end of partition 0
    run in one process, and therefore use the same clock. Before each record, a random pause of up to 2 ms lets the
    consumer's next fetch reach the broker first, as for any consumer at the end of a log. Stop after `seconds`.
    """
    producer = Producer({"bootstrap.servers": _bootstrap(address), "linger.ms": 0})
    consumer = _consumer(address, topic, OFFSET_END)
    pause = random.Random(1)
    times: list[float] = []
    _meet(producer, consumer, topic)
    watch = Stopwatch(pid)
    for number in range(count):
        if watch.elapsed() > seconds and number >= 10:
            break
        time.sleep(pause.random() * 0.002)
        value = b"%d" % number
        begin = time.perf_counter()
        producer.produce(topic, value, None, 0)
        message = consumer.poll(10)
        times.append((time.perf_counter() - begin) * 1000)
        if message is None or message.value() != value:
            raise WireError("the record that was produced did not come back")
        producer.poll(0)
    result = watch.read()
    consumer.close()
    producer.flush(10)
    times.sort()
    return {**result, "records": len(times), "p50": percentile(times, 0.5), "p99": percentile(times, 0.99)}


def _meet(producer: Producer, consumer: Consumer, topic: str) -> None:
    """Send records until the consumer, which starts at the end of the log, receives one. Then consume the others."""
    deadline = time.monotonic() + 30
    sent = got = 0
    while not got:
        if time.monotonic() > deadline:
            raise WireError("the consumer received nothing for 30 seconds")
        producer.produce(topic, b"meet", None, 0)
        sent += 1
        producer.flush(10)
        got = consumer.poll(0.6) is not None
    with contextlib.suppress(StopIteration):
        while consumer.poll(0.6) is not None:
            pass
