"""The two kinds of groups: those whose members assign, and those that the coordinator assigns for."""

from minibroker.groups.consumer.group import ConsumerGroup
from minibroker.groups.group import Group

AnyGroup = Group | ConsumerGroup
"""A group of either kind."""
