"""Fixtures of the unit tests."""

from tests.support import in_memory

if in_memory.has_memory():
    tmp_path = in_memory.tmp_path
