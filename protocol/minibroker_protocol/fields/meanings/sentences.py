"""The form of the tables of meanings."""

from collections.abc import Mapping
from typing import NamedTuple


class Meaning(NamedTuple):
    """The meaning of a field: a sentence, and the number of a KIP; None where none is worth naming."""

    text: str
    kip: int | None


def table(sentences: Mapping[str, str | tuple[str, int]]) -> dict[str, Meaning]:
    """Meanings of sentences, or of a sentence and a KIP."""
    return {key: Meaning(each, None) if isinstance(each, str) else Meaning(*each) for key, each in sentences.items()}
