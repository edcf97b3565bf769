"""Produce requests: appends to partitions, the short way, slices, delayed responses."""
