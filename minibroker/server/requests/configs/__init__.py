"""Configurations that clients read and alter."""
