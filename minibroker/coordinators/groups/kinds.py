"""The two types of groups: classic (members assign) and consumer (the coordinator assigns)."""

from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.group import ConsumerGroup

AnyGroup = Group | ConsumerGroup
"""A group of either kind."""
