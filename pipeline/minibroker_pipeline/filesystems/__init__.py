"""File systems that hold log directories: local disks, and object storage through fsspec."""
