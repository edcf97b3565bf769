"""Pages of a list of names."""

from collections.abc import Iterable


def page_of(names: Iterable[str], after: str, limit: int) -> tuple[list[str], str | None]:
    """The first `limit` names that sort behind `after`, and the `after` of the next page, None on the last.

    Names that come and go between two pages shift no others.
    """
    behind = sorted(name for name in names if name > after) if after else sorted(names)
    page = behind[:limit]
    return page, page[-1] if len(behind) > limit else None
