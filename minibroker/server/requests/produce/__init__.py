"""Produce requests: the append to a partition (`partition_append`), the short way (`repeated`), and slow requests.

`long_requests` are served in slices, and `delayed` waits for the disk.
"""
