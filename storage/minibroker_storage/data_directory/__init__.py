"""The data directory: file names, its lock, its small files, and atomic changes of several files."""
