"""Failures that a tool reports in one line, and the messages of Kafka's clients for error codes."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from minibroker_protocol.error_codes import ErrorCode

Answer = TypeVar("Answer")


class ToolError(Exception):
    """A failure that ends the tool with exit status `status`. The message is shown to the user."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class UsageError(ToolError):
    """An invalid command line. The tool's usage is printed after the message."""


class UnreachableError(ToolError):
    """No broker answered in time, or the connection broke. The message names the addresses tried."""


class TimedOutError(UnreachableError):
    """The timeout expired before a broker answered."""


_MESSAGES: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition as we are in the middle of a "
    "leadership election.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid topic.",
    ErrorCode.MESSAGE_TOO_LARGE: "The request included a message larger than the max message size the server will "
    "accept.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.SECURITY_DISABLED: "Security features are disabled.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is "
    "actively subscribed to it.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.INVALID_GROUP_ID: "The configured groupId is invalid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
}

_EXCEPTION_CLASSES: Final = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "PrincipalDeserializationException",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "FetchSessionTopicIdException",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "InvalidRegularExpression",
}


class ApiError(ToolError):
    """An error code that a broker returned."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = error_code(code)
        super().__init__(message or _MESSAGES.get(self.code) or self.code.meaning)

    @property
    def class_name(self) -> str:
        """The name of the exception class that Kafka's clients throw for the code."""
        camel = "".join(word.capitalize() for word in self.code.name.split("_"))
        name = _EXCEPTION_CLASSES.get(self.code) or camel.removesuffix("Exception") + "Exception"
        return f"org.apache.kafka.common.errors.{name}"

    @property
    def described(self) -> str:
        """The class name and the message, formatted as Java prints an exception."""
        return f"{self.class_name}: {self.message}"


def error_code(code: int) -> ErrorCode:
    """Return the error code as an enum member, or UNKNOWN_SERVER_ERROR for an unknown code."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def check(code: int, message: str | None = None) -> None:
    """Raise an error unless the code is NONE.

    Raises:
        ApiError: The code is an error.
    """
    if code:
        raise ApiError(code, message)


def find_error(answer: Any) -> ApiError | None:
    """Return the error in a response or in an element of a response, or None if there is no error."""
    return ApiError(answer.error_code, getattr(answer, "error_message", None)) if answer.error_code else None


def raise_if_failed(answer: Answer) -> Answer:
    """Return the response, or the element of a response, unless it has an error.

    Raises:
        ApiError: The response or the element has an error.
    """
    if error := find_error(answer):
        raise error
    return answer


def check_all(answers: Iterable[object]) -> None:
    """Raise the first error found in the elements of a response.

    Raises:
        ApiError: An element has an error.
    """
    for answer in answers:
        raise_if_failed(answer)


@contextmanager
def reword_failures(text_of: Callable[[Any], str], kind: type[ToolError] = ToolError) -> Generator[None]:
    """Convert failures of this kind to ToolErrors whose messages come from `text_of`."""
    try:
        yield
    except kind as error:
        raise ToolError(text_of(error)) from None
