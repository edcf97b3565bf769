"""Mutants for the groups and transactions stages."""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import mapped, put, shift, signed, swap, when, without_first_batch
from tests.broker.grade.relay import Mutant, caught

_J: Final = ApiKey.JOIN_GROUP
_S: Final = ApiKey.SYNC_GROUP
_H: Final = ApiKey.HEARTBEAT
_OC: Final = ApiKey.OFFSET_COMMIT
_OF: Final = ApiKey.OFFSET_FETCH
_P: Final = ApiKey.PRODUCE
_F: Final = ApiKey.FETCH
_I: Final = ApiKey.INIT_PRODUCER_ID
_E: Final = ApiKey.END_TXN
_OFFSETS: Final = "topics.partitions"
_PRODUCED: Final = "responses.partition_responses"
_FETCHED: Final = "responses.partitions"
_ADDED: Final = "results_by_topic_v3_and_below.results_by_partition.partition_error_code"


def _tell_members(message: Any, request: Any) -> None:
    if not message.error_code and not message.members:
        from minibroker_protocol.messages.groups import JoinGroupResponseMember  # noqa: PLC0415 - for one mutant

        message.members = [JoinGroupResponseMember(member_id="x", metadata=b"")]


def _without_offset_1(message: Any, request: Any) -> None:
    """Ignore read_committed: return all records up to the high watermark, and no aborted transactions."""
    for topic in message.responses:
        for partition in topic.partitions:
            partition.last_stable_offset = partition.high_watermark


def _repeat(message: Any, request: Any) -> None:
    data = bytes(request.topic_data[0].partition_data[0].records)
    if data[43:51] != b"\xff" * 8 and message.responses[0].partition_responses[0].base_offset == 0:
        put(f"{_PRODUCED}.error_code", 46)(message, request)


def _anonymous(records: Any) -> Any:
    def change(data: bytearray) -> None:
        data[43:57] = b"\xff" * 14

    return signed(change)(records)


GROUPS: Final = caught(
    {
        "groups/a-new-member-gets-its-id-first": [
            Mutant("no error with a first id", _J, swap("error_code", 79, 0)),
            Mutant("no id with MEMBER_ID_REQUIRED", _J, when(lambda m, _: m.error_code == 79, put("member_id", ""))),
        ],
        "groups/a-member-alone-leads": [
            Mutant("generations from 0 on", _J, shift("generation_id", -1)),
            Mutant("no leader", _J, put("leader", "")),
            Mutant("the leader does not learn the members", _J, put("members", [])),
            Mutant("metadata lost", _J, put("members.metadata", b"")),
            Mutant("another protocol", _J, when(lambda m, _: not m.error_code, put("protocol_name", "x"))),
        ],
        "groups/the-leader-gets-its-own-assignment": [
            Mutant("empty assignments", _S, put("assignment", b"")),
            Mutant(
                "assignments cut at the first zero byte",
                _S,
                mapped("assignment", lambda data: bytes(data).split(b"\0")[0]),
            ),
        ],
        "groups/a-second-member-starts-a-rebalance": [
            Mutant("no word of a rebalance", _H, swap("error_code", 27, 0)),
            Mutant("the same generation after a rebalance", _J, swap("generation_id", 2, 1)),
        ],
        "groups/followers-do-not-learn-the-members": [Mutant("members for the followers", _J, _tell_members)],
        "groups/a-follower-waits-for-its-assignment": [
            Mutant("the leader's assignment for all", _S, swap("assignment", b"two", b"one"))
        ],
        "groups/a-member-without-a-common-protocol-has-error-23": [
            Mutant("any protocol in one group", _J, swap("error_code", 23, 0))
        ],
        "groups/an-impossible-session-timeout-has-error-26": [
            Mutant("sessions of any length", _J, request=swap("session_timeout_ms", 86400000, 30000))
        ],
        "groups/an-unknown-member-has-error-25": [Mutant("every client is a member", _H, swap("error_code", 25, 0))],
        "groups/an-old-generation-has-error-22": [
            Mutant("generations not compared", _H, swap("error_code", 22, 0)),
            Mutant("error 27 for an old generation", _H, swap("error_code", 22, 27)),
        ],
        "groups/who-leaves-is-gone": [Mutant("members that have left stay", _H, swap("error_code", 25, 0))],
        "groups/a-static-member-comes-back-without-a-rebalance": [
            Mutant("instance ids ignored", _J, request=put("group_instance_id", None)),
            Mutant("fenced instances go on", _H, swap("error_code", 82, 0)),
        ],
        "groups/a-group-can-be-described": [
            Mutant("a group described as Empty", ApiKey.DESCRIBE_GROUPS, put("groups.group_state", "Empty")),
            Mutant("assignments not described", ApiKey.DESCRIBE_GROUPS, put("groups.members.member_assignment", b"")),
        ],
        "groups/a-group-is-listed": [Mutant("groups not listed", ApiKey.LIST_GROUPS, put("groups", []))],
        "groups/only-an-empty-group-can-be-deleted": [
            Mutant("groups with members deleted", ApiKey.DELETE_GROUPS, swap("results.error_code", 68, 0))
        ],
        "groups/a-committed-offset-comes-back": [
            Mutant("committed offsets one too high", _OF, shift(f"{_OFFSETS}.committed_offset", 1)),
            Mutant("metadata of commits lost", _OC, request=put(f"{_OFFSETS}.committed_metadata", "")),
            Mutant("commits lost", _OF, put(f"{_OFFSETS}.committed_offset", -1)),
        ],
        "groups/without-a-commit-the-offset-is-minus-1": [
            Mutant("offset 0 without a commit", _OF, swap(f"{_OFFSETS}.committed_offset", -1, 0)),
            Mutant("error 3 without a commit", _OF, put(f"{_OFFSETS}.error_code", 3)),
        ],
        "groups/null-asks-for-all-offsets": [
            Mutant("null for no offsets", _OF, when(lambda _, r: r.topics is None, put("topics", [])))
        ],
        "groups/groups-do-not-share-offsets": [
            Mutant("one group for all", _OF, swap(f"{_OFFSETS}.committed_offset", -1, 7))
        ],
        "groups/a-commit-of-an-old-generation-has-error-22": [
            Mutant("commits of any generation", _OC, swap(f"{_OFFSETS}.error_code", 22, 0))
        ],
        "groups/too-much-metadata-has-error-12": [
            Mutant(
                "metadata of any length",
                _OC,
                request=mapped(f"{_OFFSETS}.committed_metadata", lambda text: text and text[:4096]),
            )
        ],
    }
)
TRANSACTIONS: Final = caught(
    {
        "transactions/producers-get-ids": [
            Mutant("one producer id for all", _I, put("producer_id", 7)),
            Mutant("epochs from 1 on", _I, shift("producer_epoch", 1)),
        ],
        "transactions/a-repeated-batch-is-not-written-twice": [
            Mutant("an error for a repeated batch", _P, _repeat),
            Mutant("no offset for a repeated batch", _P, swap(f"{_PRODUCED}.base_offset", 0, -1)),
            Mutant("producers forgotten", _P, request=mapped("topic_data.partition_data.records", _anonymous)),
        ],
        "transactions/a-gap-in-the-sequence-has-error-45": [
            Mutant("gaps in sequences", _P, swap(f"{_PRODUCED}.error_code", 45, 0))
        ],
        "transactions/an-old-epoch-has-error-47": [
            Mutant("old epochs of producers", _P, swap(f"{_PRODUCED}.error_code", 47, 0))
        ],
        "transactions/the-next-producer-of-an-id-has-a-higher-epoch": [
            Mutant("the same epoch for the next producer", _I, put("producer_epoch", 0))
        ],
        "transactions/a-fenced-producer-cannot-end-its-transaction": [
            Mutant("a fenced producer ends its transaction", _E, put("error_code", 0))
        ],
        "transactions/a-timeout-that-is-too-long-has-error-50": [
            Mutant("transactions of any length", _I, request=swap("transaction_timeout_ms", 2_000_000_000, 60000))
        ],
        "transactions/open-transactions-are-hidden": [
            Mutant("read_committed taken for read_uncommitted", _F, request=put("isolation_level", 0)),
            Mutant("read_uncommitted taken for read_committed", _F, request=put("isolation_level", 1)),
            Mutant("the high watermark as last stable offset", _F, _without_offset_1),
        ],
        "transactions/an-abort-is-told-to-consumers": [
            Mutant("aborts that commit", _E, request=put("committed", True)),
            Mutant("aborted transactions not told", _F, put(f"{_FETCHED}.aborted_transactions", [])),
            Mutant(
                "aborted transactions from offset 0 on", _F, put(f"{_FETCHED}.aborted_transactions.first_offset", 0)
            ),
        ],
        "transactions/a-commit-is-not-told-as-aborted": [
            Mutant("commits that abort", _E, request=put("committed", False))
        ],
        "transactions/a-commit-shows-the-records": [
            Mutant("records lost at the commit", _F, mapped(f"{_FETCHED}.records", without_first_batch))
        ],
        "transactions/a-marker-is-a-control-batch": [
            Mutant("abort markers for commits", _E, request=put("committed", False))
        ],
        "transactions/the-end-for-read-committed-is-the-last-stable-offset": [
            Mutant("the end of the log for read_committed", ApiKey.LIST_OFFSETS, request=put("isolation_level", 0))
        ],
        "transactions/a-repeated-end-has-the-same-outcome": [
            Mutant("an abort after a commit", _E, swap("error_code", 48, 0))
        ],
        "transactions/a-foreign-producer-id-has-error-49": [
            Mutant("any producer id for a transactional id", ApiKey.ADD_PARTITIONS_TO_TXN, put(_ADDED, 0))
        ],
        "transactions/offsets-of-a-transaction-count-with-its-commit": [
            Mutant("offsets of a transaction at once", _OF, swap(f"{_OFFSETS}.committed_offset", -1, 11)),
            Mutant("offsets of a transaction lost", _OF, swap(f"{_OFFSETS}.committed_offset", 11, -1)),
        ],
        "transactions/pending-offsets-are-unstable": [
            Mutant("require_stable ignored", _OF, request=put("require_stable", False))
        ],
        "transactions/offsets-of-an-aborted-transaction-are-dropped": [
            Mutant("offsets of aborted transactions kept", _E, request=put("committed", True))
        ],
    }
)
