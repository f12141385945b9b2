"""The user that a secure cluster begins with, given to the registry before a broker serves.

Otherwise nobody could log in to make one. The file is the supervisor's; it has the credential, from
which no password can be learned, and is there until the cluster was up for the first time.
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
    """The connected session, before the loop runs."""

    def call(self, operation: Callable[[ClusterStore], T]) -> T:
        """Carry out an operation and wait for its result."""


def store_first_user(registry: Registry, path: Path, wall_ms: WallMs) -> None:
    """Store the credentials that the file holds; nothing without a file. Raises UserError."""
    try:
        first: dict[str, Any] = json.loads(path.read_text())
        user, credentials = str(first["user"]), dict(first["credentials"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"cannot use {path}: {problem}") from None
    registry.call(lambda store: store.quotas.alter(QuotaEntity(user, None), credentials, wall_ms))
