"""Stores the first user of a secure cluster in the registry before a broker serves clients.

Without that user nobody could log in to create others. The supervisor writes the file, which
contains a credential but no password, and removes it after the cluster has been ready.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cluster.coordinator.cluster_store import ClusterStore
from cluster.model.clocks import WallMs
from cluster.model.errors import UserError
from cluster.model.quotas import QuotaEntity

T = TypeVar("T")


class Registry(Protocol):
    """The connected session with the registry."""

    def call(self, operation: Callable[[ClusterStore], T]) -> T:
        """Run an operation and wait for its result."""


def store_first_user(registry: Registry, path: Path, wall_ms: WallMs) -> None:
    """Store the credentials from the file, if it exists. Raises UserError."""
    try:
        first: dict[str, Any] = json.loads(path.read_text())
        user, credentials = str(first["user"]), dict(first["credentials"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"cannot use {path}: {problem}") from None
    registry.call(lambda store: store.quotas.alter(QuotaEntity(user, None), credentials, wall_ms))
