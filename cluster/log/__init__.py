"""The log of one partition on disk: mmap segments, indexes, producer state, recovery."""
