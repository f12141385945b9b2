"""Fixtures of the tests of the analytics."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here loses power, and syncing thousands of small files takes half of the time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
