"""Configurations that clients alter while the broker runs (KIP-226, KIP-339, KIP-412)."""
