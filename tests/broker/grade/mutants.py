"""All mutants, and the definitions of those for the first stages."""

import struct
from typing import Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import duplicated, mapped, put, removed, shift, swap, when
from tests.broker.grade.cleaner_mutants import COMPACTION
from tests.broker.grade.file_mutants import FILES, FORGETFUL
from tests.broker.grade.log_mutants import PRODUCE, TOPICS
from tests.broker.grade.read_mutants import FETCH, LISTS
from tests.broker.grade.relay import Mutant, caught
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


_FIRST: Final = caught(
    {
        "versions/version-0-is-answered": [
            Mutant("error 42 in ApiVersions 0", _A, put("error_code", 42)),
            Mutant("no rows", _A, put("api_keys", [])),
            Mutant("a byte left over behind ApiVersions", _A, frame=_with_a_byte_more),
        ],
        "versions/the-table-has-what-clients-need": [
            Mutant("no row of Fetch", _A, removed("api_keys", lambda row: row.api_key == 1)),
            Mutant("no row of ApiVersions", _A, removed("api_keys", lambda row: row.api_key == 18)),
        ],
        "versions/each-api-is-listed-once": [Mutant("a row twice", _A, duplicated("api_keys"))],
        "versions/ranges-are-in-order": [Mutant("a last version of -1", _A, swap("api_keys.max_version", 4, -1))],
        "versions/an-unknown-version-is-answered-in-version-0-with-error-35": [
            Mutant("an unknown version refused with 42", _A, swap("error_code", 35, 42)),
            Mutant("an unknown version served as if it were known", _A, swap("error_code", 35, 0)),
            Mutant("a refusal in version 3", _A, frame=_refusal_in_version_3),
        ],
        "versions/the-refusal-names-the-versions-of-apiversions": [
            Mutant("a refusal without rows", _A, when(lambda m, _: m.error_code == 35, put("api_keys", [])))
        ],
        "versions/the-connection-goes-on-after-the-refusal": [
            Mutant("the connection closed instead of a refusal", _A, frame=_unless_refused)
        ],
        "versions/all-versions-tell-the-same-table": [
            Mutant(
                "other rows in newer versions",
                _A,
                when(lambda _, r: r is not None and r.client_software_name, removed("api_keys")),
            )
        ],
        "versions/correlation-ids-come-back": [
            Mutant("correlation ids off by one", _A, frame=_id_off_by_one),
            Mutant("correlation ids below 0 refused", raw=_without_large_ids),
        ],
        "flexible/the-header-of-apiversions-stays-version-0": [
            Mutant("response header 1 for ApiVersions 3", _A, frame=_with_header_1)
        ],
        "flexible/unknown-tags-in-the-header-are-skipped": [
            Mutant("unknown tags in a header close the connection", raw=_without_tags)
        ],
        "flexible/unknown-tags-in-the-body-are-skipped": [
            Mutant("unknown tags in a body close the connection", raw=_without_tags)
        ],
        "flexible/a-software-name-with-forbidden-letters-is-refused": [
            Mutant("any software name accepted", _A, swap("error_code", 42, 0))
        ],
        "flexible/other-flexible-responses-have-tags-in-their-header": [
            Mutant("response header 0 for Metadata 9", _M, frame=_without_header_tags)
        ],
        "flexible/a-compact-string-may-need-two-bytes-of-length": [
            Mutant("lengths of one byte alone in requests", raw=_without_long_names),
            Mutant("names cut at 127 letters", _M, mapped("topics.name", lambda name: name and name[:127])),
        ],
        "flexible/a-compact-array-may-need-two-bytes-of-length": [
            Mutant("at most 127 elements", _M, mapped("topics", lambda topics: topics[:127]))
        ],
        "flexible/null-and-empty-differ": [
            Mutant("null taken for empty", _M, request=mapped("topics", lambda topics: topics or []))
        ],
        "flexible/tagged-fields-of-the-answer-can-be-read": [
            Mutant("a feature's range upside down", _A, put("supported_features.max_version", -5))
        ],
        "metadata/the-brokers-are-listed": [
            Mutant("no brokers", _M, put("brokers", [])),
            Mutant("port 0", _M, put("brokers.port", 0)),
        ],
        "metadata/the-advertised-address-leads-back": [
            Mutant("an address without a listener", _M, put("brokers.port", 1))
        ],
        "metadata/the-controller-is-one-of-the-brokers": [
            Mutant("a controller that is no broker", _M, shift("controller_id", 7))
        ],
        "metadata/the-cluster-has-an-id": [Mutant("no cluster id", _M, put("cluster_id", None))],
        "metadata/an-empty-list-asks-for-no-topic": [
            Mutant("empty taken for null", _M, request=mapped("topics", lambda topics: topics or None))
        ],
        "metadata/null-asks-for-all-topics": [
            Mutant("a topic less among all", _M, when(lambda _, r: r.topics is None, put("topics", [])))
        ],
        "metadata/an-unknown-topic-has-error-3": [
            Mutant("unknown topics left out", _M, removed("topics", lambda topic: topic.error_code == 3)),
            Mutant("LEADER_NOT_AVAILABLE for unknown topics", _M, swap("topics.error_code", 3, 5)),
        ],
        "metadata/asking-creates-nothing-when-that-is-forbidden": [
            Mutant("topics made although it is forbidden", _M, request=put("allow_auto_topic_creation", True))
        ],
        "metadata/a-name-that-no-topic-can-have-has-error-17": [
            Mutant("error 3 for impossible names", _M, swap("topics.error_code", 17, 3))
        ],
        "metadata/all-partitions-are-listed": [
            Mutant("partitions from 1 on", _M, shift("topics.partitions.partition_index", 1))
        ],
        "metadata/leader-replicas-and-isr-fit-together": [
            Mutant("a leader that is not in sync", _M, shift("topics.partitions.leader_id", 1)),
            Mutant(
                "replicas that are no brokers",
                _M,
                lambda message, _: (put("topics.partitions.replica_nodes", [1, 9])(message, _), None)[1],
            ),
            Mutant("no replica in sync", _M, put("topics.partitions.isr_nodes", [])),
        ],
        "metadata/the-leader-epoch-is-told": [Mutant("no leader epoch", _M, put("topics.partitions.leader_epoch", -1))],
        "metadata/several-topics-are-answered-one-by-one": [
            Mutant(
                "the first error for all topics", _M, when(lambda m, _: len(m.topics) > 1, put("topics.error_code", 3))
            )
        ],
        "metadata/a-topic-has-an-id": [
            Mutant("no topic ids", _M, put("topics.topic_id", b"\0" * 16)),
            Mutant("one id for all topics", _M, put("topics.topic_id", b"\x05" * 16)),
        ],
        "metadata/a-topic-is-found-by-its-id": [
            Mutant(
                "no name for an id",
                _M,
                when(lambda _, r: r.topics and r.topics[0].name is None, put("topics.name", None)),
            )
        ],
        "metadata/an-unknown-id-has-error-100": [
            Mutant("error 3 for an unknown id", _M, swap("topics.error_code", 100, 3))
        ],
        "metadata/describecluster-knows-the-same-cluster": [
            Mutant("another cluster id in DescribeCluster", ApiKey.DESCRIBE_CLUSTER, put("cluster_id", "x")),
            Mutant("no brokers in DescribeCluster", ApiKey.DESCRIBE_CLUSTER, put("brokers", [])),
        ],
        "metadata/the-coordinator-is-one-of-the-brokers": [
            Mutant("a coordinator that is no broker", ApiKey.FIND_COORDINATOR, shift("node_id", 3))
        ],
    }
)
MUTANTS: Final = (*_FIRST, *TOPICS, *PRODUCE, *FETCH, *LISTS, *GROUPS, *TRANSACTIONS, *COMPACTION, *FILES, *FORGETFUL)
