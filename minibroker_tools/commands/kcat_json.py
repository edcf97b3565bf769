"""JSON as kcat writes it."""

import json
from typing import Any

from minibroker_protocol.messages.metadata import MetadataResponse
from minibroker_protocol.records.header import TimestampType
from minibroker_tools.client.reader import Received


def metadata_json(metadata: MetadataResponse, node: int, origin: str, topic: str | None) -> str:
    """Brokers, topics and partitions on one line."""
    return _text(
        {
            "originating_broker": {"id": node, "name": origin},
            "query": {"topic": topic or "*"},
            "controllerid": metadata.controller_id,
            "brokers": [{"id": each.node_id, "name": f"{each.host}:{each.port}"} for each in metadata.brokers],
            "topics": [
                {
                    "topic": each.name,
                    "partitions": [
                        {
                            "partition": partition.partition_index,
                            "leader": partition.leader_id,
                            "replicas": [{"id": node_id} for node_id in partition.replica_nodes],
                            "isrs": [{"id": node_id} for node_id in partition.isr_nodes],
                        }
                        for partition in sorted(each.partitions, key=lambda found: found.partition_index)
                    ],
                }
                for each in metadata.topics
            ],
        }
    )


def record_json(received: Received, broker: int) -> str:
    """A record with its place on one line; bytes that are not UTF-8 are replaced."""
    record = received.record
    kinds = {TimestampType.CREATE_TIME: "create", TimestampType.LOG_APPEND_TIME: "logappend"}
    kind = kinds.get(record.timestamp_type)
    stamped: dict[str, Any] = {} if kind is None else {"tstype": kind, "ts": record.timestamp}
    headers = [part for key, value in record.headers for part in (key, _shown(value))]
    return _text(
        {
            "topic": received.topic,
            "partition": received.partition,
            "offset": record.offset,
            **stamped,
            "broker": broker,
            **({"headers": headers} if headers else {}),
            "key": _shown(record.key),
            "payload": _shown(record.value),
        }
    )


def _shown(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
