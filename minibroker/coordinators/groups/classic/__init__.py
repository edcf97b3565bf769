"""Groups of the classic protocol, whose members agree on an assignment (JoinGroup, SyncGroup).

`coordinator` serves the requests, `rebalances` joins members and ends their sessions, and `group` has the states.
Waiting JoinGroup and SyncGroup requests are stored in their members.
"""
