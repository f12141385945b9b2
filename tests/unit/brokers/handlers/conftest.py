"""A fresh stage for each test of a handler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.handler_stage import HandlerStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    """Broker 1 of three, without topics."""
    with HandlerStage(tmp_path / "data") as made:
        yield made
