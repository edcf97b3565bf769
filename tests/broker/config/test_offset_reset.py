"""The values of `share.auto.offset.reset`."""

import pytest

from minibroker.config.keys import OffsetReset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", OffsetReset("earliest")),
        ("LATEST", OffsetReset("latest")),
        ("by_duration:PT1H30M", OffsetReset("by_duration", 5_400_000)),
        ("by_duration:P2DT0.25S", OffsetReset("by_duration", 172_800_250)),
        ("by_duration:pt1,5s", OffsetReset("by_duration", 1_500)),
    ],
)
def test_a_strategy_is_a_word_or_a_duration(text: str, expected: OffsetReset) -> None:
    assert OffsetReset.of(text) == expected


@pytest.mark.parametrize("text", ["by", "none", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:PT-1S"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        OffsetReset.of(text)
