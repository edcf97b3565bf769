"""librdkafka's producer through its C interface, to avoid measuring Python's loop over records.

confluent-kafka's `produce` takes about a microsecond per record, which saturates a core at 100 B long before a broker
is busy. This module therefore calls the library bundled with confluent-kafka directly: `rd_kafka_produce_batch` takes
thousands of records in one call. Names and layouts are those of rdkafka.h, whose interface is stable within librdkafka
1 and 2.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

from confluent_kafka import cimpl

_PRODUCER = 0  # RD_KAFKA_PRODUCER
_COPY = 2  # RD_KAFKA_MSG_F_COPY
_BATCH = 10_000


class _Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("_private", ctypes.c_void_p),
    )


def _functions() -> ctypes.CDLL:
    """Return librdkafka's functions, looked up in the extension module, which is linked against it."""
    library = ctypes.CDLL(cimpl.__file__)
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (ctypes.c_int, [pointer, text, text, text, size]),
        "rd_kafka_new": (pointer, [ctypes.c_int, pointer, text, size]),
        "rd_kafka_topic_new": (pointer, [pointer, text, pointer]),
        "rd_kafka_produce_batch": (
            ctypes.c_int,
            [pointer, ctypes.c_int32, ctypes.c_int, ctypes.POINTER(_Message), ctypes.c_int],
        ),
        "rd_kafka_flush": (ctypes.c_int, [pointer, ctypes.c_int]),
        "rd_kafka_topic_destroy": (None, [pointer]),
        "rd_kafka_destroy": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class BatchProducer:
    """Produces one value many times to partition 0 of a topic. `settings` are passed to librdkafka."""

    def __init__(self, settings: Mapping[str, str], topic: str, value: bytes) -> None:
        self._library = _functions()
        error = ctypes.create_string_buffer(512)
        conf = self._library.rd_kafka_conf_new()
        for name, setting in settings.items():
            if self._library.rd_kafka_conf_set(conf, name.encode(), setting.encode(), error, len(error)):
                raise ValueError(error.value.decode())
        self._client = self._library.rd_kafka_new(_PRODUCER, conf, error, len(error))
        if not self._client:
            raise ValueError(error.value.decode())
        self._topic = self._library.rd_kafka_topic_new(self._client, topic.encode(), None)
        self._value = ctypes.create_string_buffer(value, len(value))
        self._messages = (_Message * _BATCH)()
        for message in self._messages:
            message.payload, message.len = ctypes.addressof(self._value), len(value)

    def produce(self, count: int) -> None:
        """Queue `count` records.

        Raises:
            BufferError: The client's queue has no room for them.
        """
        for start in range(0, count, _BATCH):
            size = min(_BATCH, count - start)
            queued = self._library.rd_kafka_produce_batch(self._topic, 0, _COPY, self._messages, size)
            if queued != size:
                raise BufferError(f"only {queued} of {size} records were queued")

    def flush(self, timeout: float) -> None:
        """Wait until every queued record is acknowledged or has failed.

        Raises:
            TimeoutError: `timeout` seconds have passed.
        """
        if self._library.rd_kafka_flush(self._client, int(timeout * 1000)):
            raise TimeoutError(f"records are still queued after {timeout:.0f} s")

    def close(self) -> None:
        self._library.rd_kafka_topic_destroy(self._topic)
        self._library.rd_kafka_destroy(self._client)
