"""The ways in which a check does not pass."""

from typing import Any


class CheckFailedError(Exception):
    """An answer is not as Kafka's.

    Args:
        expected: a phrase: "35 in error_code".
        came: a phrase.
        response: the decoded response that is wrong, if there is one.
        path: the field in it: "topics[0].error_code".
        value: the expected value of that field; None where there is not one alone.
        file, at: the wrong file instead of a response, and the first byte that differs; `path` is a remark on it.
    """

    def __init__(
        self,
        expected: str,
        came: str,
        response: Any = None,
        path: str = "",
        value: Any = None,
        *,
        file: str = "",
        at: int = 0,
    ) -> None:
        super().__init__(f"expected {expected}, came {came}")
        self.expected = expected
        self.came = came
        self.response = response
        self.path = path
        self.value = value
        self.file = file
        self.at = at


class SkippedError(Exception):
    """The check does not apply; the message says why."""
