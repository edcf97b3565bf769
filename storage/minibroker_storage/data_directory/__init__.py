"""The data directory: the names in it, its lock, its small files, and many of its files changed as one."""
