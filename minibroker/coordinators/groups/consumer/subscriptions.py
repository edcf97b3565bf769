"""Subscriptions to topics by regular expression.

After the response to a heartbeat with a new expression, the expression is matched in time slices of the event loop.
The matched topics become part of the group's next epoch. Kafka does the same, but matches on another thread
(`GroupMetadataManager.maybeUpdateRegularExpressions`).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from minibroker.cluster.routing.slices import Slices, Steps, Work
from minibroker.cluster.topics import Topics
from minibroker.config.names.regular_expressions.expression import RegularExpression, RegularExpressionError
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerMember

_RIGHTS_BY_SLICE: Final = 50
_logger = logging.getLogger(__name__)


class TopicAccess(NamedTuple):
    """The topics that the regular expressions of a group can match, according to a client's access rights.

    Attributes:
        allows: Returns whether the client has the right to see a topic.
        rules: A number that changes whenever access rights may have changed.
    """

    allows: Callable[[str], bool]
    rules: int = 0


def _match_all(_name: str) -> bool:
    return True


ALL_TOPICS: Final = TopicAccess(_match_all)


def resolve(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    topics: Topics,
    topic_access: TopicAccess | None,
    slices: Slices,
) -> None:
    """Store the topics matched by the members' regular expressions, or begin to match the expressions in steps.

    If `topic_access` is None, there is no client whose rights could be checked. In that case, nothing
    is matched, and expressions keep their topics.
    """
    regexes = {member.regex for member in members if member.regex}
    if not regexes:
        group.set_matched_topics({}, None)
        return
    known, matched_among = group.regexes, group.matched_among
    if topic_access is not None:
        matched_among = topics.names, topic_access.rules
        if matched_among != group.matched_among:
            known = {}
    missing = regexes - known.keys() if topic_access is not None else set[str]()
    if not missing:
        if known.keys() != regexes:
            group.set_matched_topics({regex: known[regex] for regex in regexes if regex in known}, matched_among)
        return
    if group.is_matching:
        return
    assert topic_access is not None
    assert matched_among is not None
    matched = slices.begin(_match(group.group_id, sorted(missing), matched_among[0], topic_access.allows))
    if isinstance(matched, Work):
        group.is_matching = True
        store_matches = partial(_store_matches, group, known, matched_among)
        matched.then(store_matches, partial(_log_failure, group))  # pyright: ignore[reportUnknownMemberType] - the result has any type
    else:
        kept = {regex: known[regex] for regex in regexes if regex in known}
        group.set_matched_topics({**kept, **matched}, matched_among)


def _store_matches(
    group: ConsumerGroup,
    known: Mapping[str, frozenset[str]],
    matched_among: tuple[Collection[str], int],
    matched: Mapping[str, frozenset[str]],
) -> None:
    """Store the matched topics. The next heartbeat checks whether they are still up to date."""
    group.is_matching = False
    group.has_new_matches |= any(topics != group.regexes.get(regex, frozenset()) for regex, topics in matched.items())
    group.set_matched_topics({**known, **matched}, matched_among)


def _log_failure(group: ConsumerGroup, error: Exception) -> None:
    group.is_matching = False
    _logger.error("The regular expressions of group %s could not be matched", group.group_id, exc_info=error)


def _match(
    group_id: str, regexes: Iterable[str], names: Collection[str], allows: Callable[[str], bool]
) -> Steps[dict[str, frozenset[str]]]:
    """Match regular expressions. An unusable expression matches nothing, as in Kafka."""
    topics_by_regex: dict[str, frozenset[str]] = {}
    for regex in regexes:
        try:
            expression = RegularExpression(regex)
            matching = yield from expression.matching(names)
        except RegularExpressionError as error:
            _logger.warning("A regular expression of group %s is ignored: %s", group_id, error)
            matching = []
        allowed: list[str] = []
        for count, name in enumerate(matching, 1):
            if allows(name):
                allowed.append(name)
            if allows is not _match_all and count % _RIGHTS_BY_SLICE == 0:
                yield
        topics_by_regex[regex] = frozenset(allowed)
        if len(names) > _RIGHTS_BY_SLICE:
            yield
    return topics_by_regex
