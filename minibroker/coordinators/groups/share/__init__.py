"""Share groups: the coordinator assigns partitions, and several members can share one.

Each record is delivered to one of these members at a time.
"""
