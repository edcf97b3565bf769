"""Send a record to a broker in this process and read it back. Requires minibroker and kafka-python."""

from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]  # kafka-python ships no types

from minibroker import Broker

with Broker() as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("greetings", key=b"planet", value=b"hello, world")
    producer.close()  # Closing waits until everything is delivered.

    consumer = KafkaConsumer("greetings", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    record = next(consumer)
    print(f"{record.topic}-{record.partition} @ {record.offset}: {record.key.decode()} = {record.value.decode()}")
    consumer.close()
