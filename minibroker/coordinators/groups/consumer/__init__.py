"""Groups of the consumer protocol (KIP-848): the coordinator assigns partitions, and members reconcile.

`coordinator` serves heartbeats. `group_update` makes the changes for a heartbeat, including the target assignment, and
`reconciliation` moves a member to its target. `group` has the state of the group and its members. `subscriptions`
resolves regular expressions. `migration` and `classic_members` serve classic consumers.
"""
