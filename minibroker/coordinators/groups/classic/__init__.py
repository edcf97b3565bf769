"""Groups of the classic protocol, whose members agree on an assignment (JoinGroup, SyncGroup).

`rebalances` joins members and ends their sessions; a JoinGroup or SyncGroup that waits is kept by its member
(`members`). `group` has the states.
"""
