"""Groups of the consumer protocol (KIP-848): the coordinator assigns, and members reconcile.

`coordinator` serves heartbeats. `group_update` makes the changes of one, `targets` the assignment, `reconciliation`
brings a member to it. `group` and `member` have the state. `migration` and `classic_members` serve classic consumers.
"""
