import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from minibroker_protocol.error_codes import ErrorCode

# The codes in org.apache.kafka.common.protocol.Errors of Kafka 3.9.1 whose exception is a RetriableException.
RETRIABLE_IN_KAFKA_3_9 = {
    *(2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75),
    *(78, 80, 83, 84, 88, 89, 100, 103, 106, 122, 123),
}


@pytest.mark.parametrize("theirs", KioErrorCode, ids=lambda code: code.name)
def test_every_code_has_the_name_number_and_retriable_flag_that_kio_has(theirs: KioErrorCode) -> None:
    ours = ErrorCode(int(theirs))
    assert (ours.name, ours.retriable) == (theirs.name.upper(), theirs.retriable)


def test_there_is_no_code_that_kio_lacks_but_those_of_kafka_4_4_and_no_gap() -> None:
    newer = {134, 135, 136}
    assert {int(code) for code in ErrorCode} == {int(code) for code in KioErrorCode} | newer
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


def test_the_retriable_codes_are_those_of_kafka_3_9_as_far_as_its_list_goes() -> None:
    assert {int(code) for code in ErrorCode if code.retriable and code <= 127} == RETRIABLE_IN_KAFKA_3_9


def test_no_two_names_share_a_number() -> None:
    assert len(ErrorCode.__members__) == len(ErrorCode)


def test_every_code_means_something_else_in_one_sentence() -> None:
    meanings = [code.meaning for code in ErrorCode]
    assert len(set(meanings)) == len(meanings)
    assert all(meaning[0].isupper() or meaning.split()[0] in {"acks", "delete.topic.enable"} for meaning in meanings)
    assert all(meaning.endswith(".") for meaning in meanings)


def test_a_code_is_the_number_that_goes_on_the_wire() -> None:
    assert int(ErrorCode.CORRUPT_MESSAGE) == 2
    assert {2: "found"}[ErrorCode.CORRUPT_MESSAGE] == "found"
    assert int(ErrorCode.UNKNOWN_SERVER_ERROR).to_bytes(2, "big", signed=True) == b"\xff\xff"


def test_a_number_that_kafka_does_not_use_is_refused() -> None:
    with pytest.raises(ValueError, match="137 is not a valid ErrorCode"):
        ErrorCode(137)
