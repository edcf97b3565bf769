"""All mutants, and those of the first stages."""

import struct
from typing import Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import asked, double, lose, made, put, shift, swap
from tests.broker.grade.cleaner_mutants import COMPACTION
from tests.broker.grade.file_mutants import FILES, FORGETFUL
from tests.broker.grade.log_mutants import PRODUCE, TOPICS
from tests.broker.grade.read_mutants import FETCH, LISTS
from tests.broker.grade.relay import Mutant
from tests.broker.grade.state_mutants import GROUPS, TRANSACTIONS

_A: Final = ApiKey.API_VERSIONS
_M: Final = ApiKey.METADATA


def _id_off_by_one(frame: bytes, version: int) -> bytes:
    (number,) = struct.unpack_from(">i", frame, 4)
    return frame[:4] + struct.pack(">I", (number + 1) & 0xFFFFFFFF) + frame[8:]


def _with_a_byte_more(frame: bytes, version: int) -> bytes:
    return struct.pack(">i", len(frame) - 3) + frame[4:] + b"\0"


def _with_header_1(frame: bytes, version: int) -> bytes:
    if version < 3:
        return frame
    return struct.pack(">i", len(frame) - 3) + frame[4:8] + b"\0" + frame[8:]


def _without_header_tags(frame: bytes, version: int) -> bytes:
    if version < 9:
        return frame
    return struct.pack(">i", len(frame) - 5) + frame[4:8] + frame[9:]


def _unless_refused(frame: bytes, version: int) -> bytes | None:
    return None if frame[8:10] == b"\0\x23" else frame


def _refusal_in_version_3(frame: bytes, version: int) -> bytes:
    if frame[8:10] != b"\0\x23":
        return frame
    body = frame[4:10] + b"\x01" + b"\0\0\0\0\0"
    return struct.pack(">i", len(body)) + body


def _without_tags(frame: bytes) -> bytes | None:
    return None if b"\x02\x63\x02hi" in frame else frame


def _without_long_names(frame: bytes) -> bytes | None:
    return None if b"nnnnnnnn" in frame else frame


def _without_large_ids(frame: bytes) -> bytes | None:
    return None if frame[8:9] >= b"\x80" else frame


_FIRST: Final = (
    Mutant("error 42 in ApiVersions 0", "versions/version-0-is-answered", _A, response=put("error_code", 42)),
    Mutant("no rows", "versions/version-0-is-answered", _A, response=put("api_keys", [])),
    Mutant(
        "no row of Fetch",
        "versions/the-table-has-what-clients-need",
        _A,
        response=lose("api_keys", lambda row: row.api_key == 1),
    ),
    Mutant(
        "no row of ApiVersions",
        "versions/the-table-has-what-clients-need",
        _A,
        response=lose("api_keys", lambda row: row.api_key == 18),
    ),
    Mutant("a row twice", "versions/each-api-is-listed-once", _A, response=double("api_keys")),
    Mutant("a last version of -1", "versions/ranges-are-in-order", _A, response=swap("api_keys.max_version", 4, -1)),
    Mutant(
        "an unknown version refused with 42",
        "versions/an-unknown-version-is-answered-in-version-0-with-error-35",
        _A,
        response=swap("error_code", 35, 42),
    ),
    Mutant(
        "an unknown version served as if it were known",
        "versions/an-unknown-version-is-answered-in-version-0-with-error-35",
        _A,
        response=swap("error_code", 35, 0),
    ),
    Mutant(
        "a refusal in version 3",
        "versions/an-unknown-version-is-answered-in-version-0-with-error-35",
        _A,
        frame=_refusal_in_version_3,
    ),
    Mutant(
        "a refusal without rows",
        "versions/the-refusal-names-the-versions-of-apiversions",
        _A,
        response=lambda message, _: put("api_keys", [])(message, _) if message.error_code == 35 else None,
    ),
    Mutant(
        "the connection closed instead of a refusal",
        "versions/the-connection-goes-on-after-the-refusal",
        _A,
        frame=_unless_refused,
    ),
    Mutant(
        "other rows in newer versions",
        "versions/all-versions-tell-the-same-table",
        _A,
        response=lambda message, request: (
            lose("api_keys")(message, request) if request is not None and request.client_software_name else None
        ),
    ),
    Mutant("correlation ids off by one", "versions/correlation-ids-come-back", _A, frame=_id_off_by_one),
    Mutant("correlation ids below 0 refused", "versions/correlation-ids-come-back", raw=_without_large_ids),
    Mutant("a byte left over behind ApiVersions", "versions/version-0-is-answered", _A, frame=_with_a_byte_more),
    Mutant(
        "response header 1 for ApiVersions 3",
        "flexible/the-header-of-apiversions-stays-version-0",
        _A,
        frame=_with_header_1,
    ),
    Mutant(
        "unknown tags in a header close the connection",
        "flexible/unknown-tags-in-the-header-are-skipped",
        raw=_without_tags,
    ),
    Mutant(
        "unknown tags in a body close the connection",
        "flexible/unknown-tags-in-the-body-are-skipped",
        raw=_without_tags,
    ),
    Mutant(
        "any software name accepted",
        "flexible/a-software-name-with-forbidden-letters-is-refused",
        _A,
        response=swap("error_code", 42, 0),
    ),
    Mutant(
        "response header 0 for Metadata 9",
        "flexible/other-flexible-responses-have-tags-in-their-header",
        _M,
        frame=_without_header_tags,
    ),
    Mutant(
        "lengths of one byte alone in requests",
        "flexible/a-compact-string-may-need-two-bytes-of-length",
        raw=_without_long_names,
    ),
    Mutant(
        "names cut at 127 letters",
        "flexible/a-compact-string-may-need-two-bytes-of-length",
        _M,
        response=made("topics.name", lambda name: name and name[:127]),
    ),
    Mutant(
        "at most 127 elements",
        "flexible/a-compact-array-may-need-two-bytes-of-length",
        _M,
        response=made("topics", lambda topics: topics[:127]),
    ),
    Mutant(
        "null taken for empty",
        "flexible/null-and-empty-differ",
        _M,
        request=asked(made("topics", lambda topics: topics or [])),
    ),
    Mutant(
        "a feature's range upside down",
        "flexible/tagged-fields-of-the-answer-can-be-read",
        _A,
        response=put("supported_features.max_version", -5),
    ),
    Mutant("no brokers", "metadata/the-brokers-are-listed", _M, response=put("brokers", [])),
    Mutant("port 0", "metadata/the-brokers-are-listed", _M, response=put("brokers.port", 0)),
    Mutant(
        "an address without a listener",
        "metadata/the-advertised-address-leads-back",
        _M,
        response=put("brokers.port", 1),
    ),
    Mutant(
        "a controller that is no broker",
        "metadata/the-controller-is-one-of-the-brokers",
        _M,
        response=shift("controller_id", 7),
    ),
    Mutant("no cluster id", "metadata/the-cluster-has-an-id", _M, response=put("cluster_id", None)),
    Mutant(
        "empty taken for null",
        "metadata/an-empty-list-asks-for-no-topic",
        _M,
        request=asked(made("topics", lambda topics: topics or None)),
    ),
    Mutant(
        "a topic less among all",
        "metadata/null-asks-for-all-topics",
        _M,
        response=lambda message, request: put("topics", [])(message, request) if request.topics is None else None,
    ),
    Mutant(
        "unknown topics left out",
        "metadata/an-unknown-topic-has-error-3",
        _M,
        response=lose("topics", lambda topic: topic.error_code == 3),
    ),
    Mutant(
        "LEADER_NOT_AVAILABLE for unknown topics",
        "metadata/an-unknown-topic-has-error-3",
        _M,
        response=swap("topics.error_code", 3, 5),
    ),
    Mutant(
        "topics made although it is forbidden",
        "metadata/asking-creates-nothing-when-that-is-forbidden",
        _M,
        request=asked(put("allow_auto_topic_creation", True)),
    ),
    Mutant(
        "error 3 for impossible names",
        "metadata/a-name-that-no-topic-can-have-has-error-17",
        _M,
        response=swap("topics.error_code", 17, 3),
    ),
    Mutant(
        "partitions from 1 on",
        "metadata/all-partitions-are-listed",
        _M,
        response=shift("topics.partitions.partition_index", 1),
    ),
    Mutant(
        "a leader that is not in sync",
        "metadata/leader-replicas-and-isr-fit-together",
        _M,
        response=shift("topics.partitions.leader_id", 1),
    ),
    Mutant(
        "replicas that are no brokers",
        "metadata/leader-replicas-and-isr-fit-together",
        _M,
        response=lambda message, _: (put("topics.partitions.replica_nodes", [1, 9])(message, _), None)[1],
    ),
    Mutant(
        "no replica in sync",
        "metadata/leader-replicas-and-isr-fit-together",
        _M,
        response=put("topics.partitions.isr_nodes", []),
    ),
    Mutant(
        "no leader epoch", "metadata/the-leader-epoch-is-told", _M, response=put("topics.partitions.leader_epoch", -1)
    ),
    Mutant(
        "the first error for all topics",
        "metadata/several-topics-are-answered-one-by-one",
        _M,
        response=lambda message, _: put("topics.error_code", 3)(message, _) if len(message.topics) > 1 else None,
    ),
    Mutant("no topic ids", "metadata/a-topic-has-an-id", _M, response=put("topics.topic_id", b"\0" * 16)),
    Mutant("one id for all topics", "metadata/a-topic-has-an-id", _M, response=put("topics.topic_id", b"\x05" * 16)),
    Mutant(
        "no name for an id",
        "metadata/a-topic-is-found-by-its-id",
        _M,
        response=lambda message, request: (
            put("topics.name", None)(message, request) if request.topics and request.topics[0].name is None else None
        ),
    ),
    Mutant(
        "error 3 for an unknown id",
        "metadata/an-unknown-id-has-error-100",
        _M,
        response=swap("topics.error_code", 100, 3),
    ),
    Mutant(
        "another cluster id in DescribeCluster",
        "metadata/describecluster-knows-the-same-cluster",
        ApiKey.DESCRIBE_CLUSTER,
        response=put("cluster_id", "x"),
    ),
    Mutant(
        "no brokers in DescribeCluster",
        "metadata/describecluster-knows-the-same-cluster",
        ApiKey.DESCRIBE_CLUSTER,
        response=put("brokers", []),
    ),
    Mutant(
        "a coordinator that is no broker",
        "metadata/the-coordinator-is-one-of-the-brokers",
        ApiKey.FIND_COORDINATOR,
        response=shift("node_id", 3),
    ),
)
MUTANTS: Final = (*_FIRST, *TOPICS, *PRODUCE, *FETCH, *LISTS, *GROUPS, *TRANSACTIONS, *COMPACTION, *FILES, *FORGETFUL)
