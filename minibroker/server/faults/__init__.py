"""Fault injection: what a fault does, which requests it matches, and how often it fires. See `docs/faults.md`."""
