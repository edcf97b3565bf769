"""Groups of the classic protocol, whose members agree on an assignment (JoinGroup, SyncGroup)."""
