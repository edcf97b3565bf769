"""Share groups: the coordinator assigns partitions, and can assign a partition to several members.

Each record of such a partition is delivered to only one of these members at a time.
"""
