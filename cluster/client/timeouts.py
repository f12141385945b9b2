"""How long the tools wait for brokers."""

from typing import Final

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 30.0
"""Longer than it takes to replace a dead controller: its session timeout, 18 s by default."""
POLL_S: Final = 0.1
