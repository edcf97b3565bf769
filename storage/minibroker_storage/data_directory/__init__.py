"""The data directory: file names, its lock, its small files, and atomic changes to several files."""
