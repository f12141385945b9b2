"""Signals by which a supervisor stops brokers; SIGTERM stops a single one."""

import signal
from typing import Final

CLUSTER_STOPS: Final = signal.SIGUSR1
"""The whole cluster is about to stop: serve no client any more, and elect nobody, so that every
partition keeps its in-sync replicas. SIGTERM follows."""
