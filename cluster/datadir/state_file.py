"""`cluster.json`: the state of the cluster, for people and scripts.

Its presence marks a data directory as made by this program. Whether a cluster is running is
decided by the supervisor's socket alone, never by this file.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cluster.model.errors import UserError

_FORMAT: Final = "milena-cluster-1"


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the file atomically. Raises OSError."""
    draft = draft_of(path)
    try:
        draft.write_text(json.dumps({"format": _FORMAT, **state}, indent=2) + "\n")
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def draft_of(path: Path) -> Path:
    """The temporary file that is renamed to `path`; a killed writer leaves it behind."""
    return path.with_name(path.name + ".new")


def read_state(path: Path) -> dict[str, Any] | None:
    """The last state written; None without a file. Raises UserError for a file of another kind."""
    try:
        state = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise UserError(f"cannot read {path}: {problem}") from None
    if not isinstance(state, dict) or state.pop("format", None) != _FORMAT:
        raise UserError(f"{path} was not written by Milena: choose another --data-dir")
    return state


def remembered_brokers(path: Path) -> int | None:
    """How many brokers the directory was last started with; None if it never was."""
    state = read_state(path)
    if state is None:
        return None
    brokers = state.get("brokers")
    if not isinstance(brokers, list) or not brokers:
        raise UserError(f"{path} does not say how many brokers there are: remove it, or restore it")
    return len(brokers)
