"""Streams groups (KIP-1071): the coordinator assigns the tasks of a topology to the members."""
