"""Share groups: the coordinator can assign the same partition to several members.

Each record of such a partition is delivered to only one of these members at a time.
"""
