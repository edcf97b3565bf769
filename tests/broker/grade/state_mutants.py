"""The mutants of the stages about groups and transactions."""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import asked, made, put, shift, signed, swap, without_first_batch
from tests.broker.grade.relay import Mutant

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
    """No read_committed: everything up to the high watermark, and nothing aborted."""
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


GROUPS: Final = (
    Mutant("no error with a first id", "groups/a-new-member-gets-its-id-first", _J, response=swap("error_code", 79, 0)),
    Mutant(
        "no id with MEMBER_ID_REQUIRED",
        "groups/a-new-member-gets-its-id-first",
        _J,
        response=lambda m, r: put("member_id", "")(m, r) if m.error_code == 79 else None,
    ),
    Mutant("generations from 0 on", "groups/a-member-alone-leads", _J, response=shift("generation_id", -1)),
    Mutant("no leader", "groups/a-member-alone-leads", _J, response=put("leader", "")),
    Mutant("the leader does not learn the members", "groups/a-member-alone-leads", _J, response=put("members", [])),
    Mutant("metadata lost", "groups/a-member-alone-leads", _J, response=put("members.metadata", b"")),
    Mutant(
        "another protocol",
        "groups/a-member-alone-leads",
        _J,
        response=lambda m, r: put("protocol_name", "x")(m, r) if not m.error_code else None,
    ),
    Mutant("empty assignments", "groups/the-leader-gets-its-own-assignment", _S, response=put("assignment", b"")),
    Mutant(
        "assignments cut at the first zero byte",
        "groups/the-leader-gets-its-own-assignment",
        _S,
        response=made("assignment", lambda data: bytes(data).split(b"\0")[0]),
    ),
    Mutant(
        "no word of a rebalance", "groups/a-second-member-starts-a-rebalance", _H, response=swap("error_code", 27, 0)
    ),
    Mutant(
        "the same generation after a rebalance",
        "groups/a-second-member-starts-a-rebalance",
        _J,
        response=swap("generation_id", 2, 1),
    ),
    Mutant("members for the followers", "groups/followers-do-not-learn-the-members", _J, response=_tell_members),
    Mutant(
        "the leader's assignment for all",
        "groups/a-follower-waits-for-its-assignment",
        _S,
        response=swap("assignment", b"two", b"one"),
    ),
    Mutant(
        "any protocol in one group",
        "groups/a-member-without-a-common-protocol-has-error-23",
        _J,
        response=swap("error_code", 23, 0),
    ),
    Mutant(
        "sessions of any length",
        "groups/an-impossible-session-timeout-has-error-26",
        _J,
        request=asked(swap("session_timeout_ms", 86400000, 30000)),
    ),
    Mutant("every client is a member", "groups/an-unknown-member-has-error-25", _H, response=swap("error_code", 25, 0)),
    Mutant("generations not compared", "groups/an-old-generation-has-error-22", _H, response=swap("error_code", 22, 0)),
    Mutant(
        "error 27 for an old generation",
        "groups/an-old-generation-has-error-22",
        _H,
        response=swap("error_code", 22, 27),
    ),
    Mutant("members that have left stay", "groups/who-leaves-is-gone", _H, response=swap("error_code", 25, 0)),
    Mutant(
        "instance ids ignored",
        "groups/a-static-member-comes-back-without-a-rebalance",
        _J,
        request=asked(put("group_instance_id", None)),
    ),
    Mutant(
        "fenced instances go on",
        "groups/a-static-member-comes-back-without-a-rebalance",
        _H,
        response=swap("error_code", 82, 0),
    ),
    Mutant(
        "a group described as Empty",
        "groups/a-group-can-be-described",
        ApiKey.DESCRIBE_GROUPS,
        response=put("groups.group_state", "Empty"),
    ),
    Mutant(
        "assignments not described",
        "groups/a-group-can-be-described",
        ApiKey.DESCRIBE_GROUPS,
        response=put("groups.members.member_assignment", b""),
    ),
    Mutant("groups not listed", "groups/a-group-is-listed", ApiKey.LIST_GROUPS, response=put("groups", [])),
    Mutant(
        "groups with members deleted",
        "groups/only-an-empty-group-can-be-deleted",
        ApiKey.DELETE_GROUPS,
        response=swap("results.error_code", 68, 0),
    ),
    Mutant(
        "committed offsets one too high",
        "groups/a-committed-offset-comes-back",
        _OF,
        response=shift(f"{_OFFSETS}.committed_offset", 1),
    ),
    Mutant(
        "metadata of commits lost",
        "groups/a-committed-offset-comes-back",
        _OC,
        request=asked(put(f"{_OFFSETS}.committed_metadata", "")),
    ),
    Mutant(
        "commits lost", "groups/a-committed-offset-comes-back", _OF, response=put(f"{_OFFSETS}.committed_offset", -1)
    ),
    Mutant(
        "offset 0 without a commit",
        "groups/without-a-commit-the-offset-is-minus-1",
        _OF,
        response=swap(f"{_OFFSETS}.committed_offset", -1, 0),
    ),
    Mutant(
        "error 3 without a commit",
        "groups/without-a-commit-the-offset-is-minus-1",
        _OF,
        response=put(f"{_OFFSETS}.error_code", 3),
    ),
    Mutant(
        "null for no offsets",
        "groups/null-asks-for-all-offsets",
        _OF,
        response=lambda m, r: put("topics", [])(m, r) if r.topics is None else None,
    ),
    Mutant(
        "one group for all",
        "groups/groups-do-not-share-offsets",
        _OF,
        response=swap(f"{_OFFSETS}.committed_offset", -1, 7),
    ),
    Mutant(
        "commits of any generation",
        "groups/a-commit-of-an-old-generation-has-error-22",
        _OC,
        response=swap(f"{_OFFSETS}.error_code", 22, 0),
    ),
    Mutant(
        "metadata of any length",
        "groups/too-much-metadata-has-error-12",
        _OC,
        request=asked(made(f"{_OFFSETS}.committed_metadata", lambda text: text and text[:4096])),
    ),
)
TRANSACTIONS: Final = (
    Mutant("one producer id for all", "transactions/producers-get-ids", _I, response=put("producer_id", 7)),
    Mutant("epochs from 1 on", "transactions/producers-get-ids", _I, response=shift("producer_epoch", 1)),
    Mutant("an error for a repeated batch", "transactions/a-repeated-batch-is-not-written-twice", _P, response=_repeat),
    Mutant(
        "no offset for a repeated batch",
        "transactions/a-repeated-batch-is-not-written-twice",
        _P,
        response=swap(f"{_PRODUCED}.base_offset", 0, -1),
    ),
    Mutant(
        "producers forgotten",
        "transactions/a-repeated-batch-is-not-written-twice",
        _P,
        request=asked(made("topic_data.partition_data.records", _anonymous)),
    ),
    Mutant(
        "gaps in sequences",
        "transactions/a-gap-in-the-sequence-has-error-45",
        _P,
        response=swap(f"{_PRODUCED}.error_code", 45, 0),
    ),
    Mutant(
        "old epochs of producers",
        "transactions/an-old-epoch-has-error-47",
        _P,
        response=swap(f"{_PRODUCED}.error_code", 47, 0),
    ),
    Mutant(
        "the same epoch for the next producer",
        "transactions/the-next-producer-of-an-id-has-a-higher-epoch",
        _I,
        response=put("producer_epoch", 0),
    ),
    Mutant(
        "a fenced producer ends its transaction",
        "transactions/a-fenced-producer-cannot-end-its-transaction",
        _E,
        response=put("error_code", 0),
    ),
    Mutant(
        "transactions of any length",
        "transactions/a-timeout-that-is-too-long-has-error-50",
        _I,
        request=asked(swap("transaction_timeout_ms", 2_000_000_000, 60000)),
    ),
    Mutant(
        "read_committed taken for read_uncommitted",
        "transactions/open-transactions-are-hidden",
        _F,
        request=asked(put("isolation_level", 0)),
    ),
    Mutant(
        "read_uncommitted taken for read_committed",
        "transactions/open-transactions-are-hidden",
        _F,
        request=asked(put("isolation_level", 1)),
    ),
    Mutant(
        "the high watermark as last stable offset",
        "transactions/open-transactions-are-hidden",
        _F,
        response=_without_offset_1,
    ),
    Mutant(
        "aborts that commit", "transactions/an-abort-is-told-to-consumers", _E, request=asked(put("committed", True))
    ),
    Mutant(
        "aborted transactions not told",
        "transactions/an-abort-is-told-to-consumers",
        _F,
        response=put(f"{_FETCHED}.aborted_transactions", []),
    ),
    Mutant(
        "aborted transactions from offset 0 on",
        "transactions/an-abort-is-told-to-consumers",
        _F,
        response=put(f"{_FETCHED}.aborted_transactions.first_offset", 0),
    ),
    Mutant(
        "commits that abort", "transactions/a-commit-is-not-told-as-aborted", _E, request=asked(put("committed", False))
    ),
    Mutant(
        "records lost at the commit",
        "transactions/a-commit-shows-the-records",
        _F,
        response=made(f"{_FETCHED}.records", without_first_batch),
    ),
    Mutant(
        "abort markers for commits",
        "transactions/a-marker-is-a-control-batch",
        _E,
        request=asked(put("committed", False)),
    ),
    Mutant(
        "the end of the log for read_committed",
        "transactions/the-end-for-read-committed-is-the-last-stable-offset",
        ApiKey.LIST_OFFSETS,
        request=asked(put("isolation_level", 0)),
    ),
    Mutant(
        "an abort after a commit",
        "transactions/a-repeated-end-has-the-same-outcome",
        _E,
        response=swap("error_code", 48, 0),
    ),
    Mutant(
        "any producer id for a transactional id",
        "transactions/a-foreign-producer-id-has-error-49",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        response=put(_ADDED, 0),
    ),
    Mutant(
        "offsets of a transaction at once",
        "transactions/offsets-of-a-transaction-count-with-its-commit",
        _OF,
        response=swap(f"{_OFFSETS}.committed_offset", -1, 11),
    ),
    Mutant(
        "offsets of a transaction lost",
        "transactions/offsets-of-a-transaction-count-with-its-commit",
        _OF,
        response=swap(f"{_OFFSETS}.committed_offset", 11, -1),
    ),
    Mutant(
        "require_stable ignored",
        "transactions/pending-offsets-are-unstable",
        _OF,
        request=asked(put("require_stable", False)),
    ),
    Mutant(
        "offsets of aborted transactions kept",
        "transactions/offsets-of-an-aborted-transaction-are-dropped",
        _E,
        request=asked(put("committed", True)),
    ),
)
