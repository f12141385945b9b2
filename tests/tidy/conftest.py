"""Fixtures of the tests of the sources."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_garbage_collector() -> Iterator[None]:
    """Trees of sources have no circles, and visiting them takes longer than parsing."""
    gc.disable()
    yield
    gc.enable()
