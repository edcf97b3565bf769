"""Share groups: several members can share a partition, and each record is delivered to one of them at a time."""
