"""Configurations that clients describe and alter."""
