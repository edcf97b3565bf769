"""Produce requests: appends to partitions (`partition_append`), formats (`record_sets`) and waiting (`delayed`)."""
