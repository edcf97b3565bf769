"""The meanings of fields of headers, batches, records and messages, and of what no declaration names."""

from typing import Final

from minibroker_protocol.fields.meanings.sentences import Meaning, table

RECORDS: Final[dict[str, Meaning]] = table(
    {
        "(length)": "The number of bytes that follow.",
        "(count)": "The number of elements that follow.",
        "(tag)": ("The number that a tagged field has within its structure.", 482),
        "(size)": ("The number of bytes of this tagged field, so that a reader may skip it.", 482),
        "(presence)": "1 where the structure follows; a negative number says that it is null.",
        "(tagged fields)": (
            "Optional fields, each with a number: old readers skip those that they do not know.",
            482,
        ),
        "Frame.length": "The bytes of the request or response behind these four.",
        "RequestHeader": "The beginning of each request: it says who asks for what.",
        "RequestHeader.request_api_key": "The number of the API: which kind of request this is.",
        "RequestHeader.request_api_version": "The version of the API, which decides how the bytes are read.",
        "RequestHeader.correlation_id": "A number that the client chooses; the response has the same one.",
        "RequestHeader.client_id": "The client's name for itself: quotas, logs and metrics go by it.",
        "ResponseHeader": "The beginning of each response: it says which request is answered.",
        "ResponseHeader.correlation_id": "The number of the request that this answers.",
        "RecordBatch": ("Records that are stored, sent and compressed together.", 98),
        "RecordBatch.base_offset": "The offset of the first record; a producer sends 0, and the broker puts it in.",
        "RecordBatch.batch_length": "The bytes of the batch behind this field.",
        "RecordBatch.partition_leader_epoch": (
            "The epoch of the leader that appended the batch; the broker puts it in, so the checksum leaves it out.",
            101,
        ),
        "RecordBatch.magic": "The message format; it stands at the same byte in all three.",
        "RecordBatch.crc": "A checksum (CRC-32C) over the bytes from the attributes to the end of the batch.",
        "RecordBatch.attributes": (
            "Bits: codec (0-2), who set the times (3), part of a transaction (4), markers (5), delete horizon (6).",
            98,
        ),
        "RecordBatch.last_offset_delta": (
            "The last offset less the base offset; it stays when compaction removes the last record."
        ),
        "RecordBatch.base_timestamp": "The time that the records' deltas count from; or a delete horizon.",
        "RecordBatch.max_timestamp": "The latest time of a record, or the time of the append for all of them.",
        "RecordBatch.producer_id": ("The id of an idempotent or transactional producer; -1 for none.", 98),
        "RecordBatch.producer_epoch": ("The epoch of that producer; a lower one has been fenced off.", 98),
        "RecordBatch.base_sequence": (
            "The producer's number for the first record: the broker finds repeated and lost batches by it.",
            98,
        ),
        "RecordBatch.record_count": "The number of records that follow.",
        "RecordBatch.records": "The records, compressed as one block.",
        "Record": ("One record; its offset and time count from those of the batch.", 98),
        "Record.length": "The bytes of the record behind this field.",
        "Record.attributes": "Bits for later use: none has a meaning yet.",
        "Record.timestamp_delta": "The record's time less the base timestamp, in ms.",
        "Record.offset_delta": "The record's offset less the base offset.",
        "Record.key": "The key: it usually chooses the partition, and compaction keeps the last record of each.",
        "Record.key_length": "The bytes of the key; -1 for none.",
        "Record.value": "The value; a record without one is a tombstone, which deletes its key when compacted.",
        "Record.value_length": "The bytes of the value; -1 for none.",
        "Record.headers": ("Names and values beside the value, for programs on the way.", 82),
        "Record.header_count": ("The number of headers.", 82),
        "Record.header_key": ("The name of a header; it may come more than once.", 82),
        "Record.header_key_length": ("The bytes of the name.", 82),
        "Record.header_value": ("The value of a header.", 82),
        "Record.header_value_length": ("The bytes of the header's value; -1 for none.", 82),
        "ControlRecord.version": ("The version of a control record's key.", 98),
        "ControlRecord.type": ("The kind of control record: 0 aborts a transaction, 1 commits it.", 98),
        "EndTransactionMarker.version": ("The version of a marker's value.", 98),
        "EndTransactionMarker.coordinator_epoch": (
            "The epoch of the coordinator that wrote the marker; markers of an older one are refused.",
            98,
        ),
        "Message": "One message of format v0 or v1; a compressed one holds others as its value.",
        "Message.offset": ("The offset; of a compressed message the last one in it.", 31),
        "Message.message_size": "The bytes of the message behind this field.",
        "Message.crc": "A checksum (CRC-32) over the bytes from the magic on.",
        "Message.magic": "The message format, 0 or 1.",
        "Message.attributes": "Bits: codec (0-2), and in format v1 who set the time (3).",
        "Message.timestamp": ("The time in ms, of the producer or of the append.", 32),
        "Message.key_length": "The bytes of the key; -1 for none.",
        "Message.key": "The key: it usually chooses the partition, and compaction keeps the last message of each.",
        "Message.value_length": "The bytes of the value; -1 for none.",
        "Message.value": "The value; of a compressed message the messages in it.",
    }
)
