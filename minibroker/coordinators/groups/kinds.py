"""The two kinds of groups: those whose members assign, and those that the coordinator assigns for."""

from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.group import ConsumerGroup

AnyGroup = Group | ConsumerGroup
"""A group of either kind."""
