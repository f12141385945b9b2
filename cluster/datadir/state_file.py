"""`cluster.json`: the state of the cluster, for people and scripts.

Its presence marks a data directory as made by this program. Whether a cluster is running is
decided by the supervisor's socket alone, never by this file.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster import __version__
from cluster.model.errors import UserError

_FORMAT: Final = "milena-cluster-1"
DATA_VERSION: Final = 1
"""The version of everything below a data directory. It rises when an older Milena could not use the
directory any more; directories from before it was written down have that of 0."""
_FORMAT_KEY: Final = "format"
_VERSION_KEY: Final = "data_version"
_WRITER_KEY: Final = "written_by"


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the file atomically. Raises OSError."""
    draft = draft_of(path)
    try:
        marks = {_FORMAT_KEY: _FORMAT, _VERSION_KEY: DATA_VERSION, _WRITER_KEY: __version__}
        draft.write_text(json.dumps({**marks, **state}, indent=2) + "\n")
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
    state = _read(path)
    if state is not None:
        for mark in (_FORMAT_KEY, _VERSION_KEY, _WRITER_KEY):
            state.pop(mark, None)
    return state


def _read(path: Path) -> dict[str, Any] | None:
    """What the file holds, with the marks of who has written it."""
    try:
        state = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise UserError(f"cannot read {path}: {problem}") from None
    if not isinstance(state, dict) or state.get(_FORMAT_KEY) != _FORMAT:
        raise UserError(f"{path} was not written by Milena: choose another --data-dir")
    return state


def check_version(path: Path) -> None:
    """Raise UserError if a newer Milena has written the state, and so the data directory.

    Directories of older versions are taken over by a start, which writes the present version.
    """
    state = _read(path) or {}
    version = state.get(_VERSION_KEY, 0)
    if not isinstance(version, int) or version > DATA_VERSION:
        raise UserError(
            f"{path.parent} was written by Milena {state.get(_WRITER_KEY, 'of a newer version')}"
            f" (data version {version}); this is Milena {__version__}, which reads data versions up"
            f" to {DATA_VERSION}: use the newer one, or choose another --data-dir"
        )


class KnownBroker(NamedTuple):
    """A broker of the data directory."""

    id: int
    slot: int
    """How many steps its ports are above those of the settings (`launch/listener_plan.py`)."""


def remembered_brokers(path: Path) -> tuple[KnownBroker, ...]:
    """The brokers that the directory was last started with; none if it never was.

    Raises UserError for a file that does not name them.
    """
    state = read_state(path)
    if state is None:
        return ()
    brokers = state.get("brokers")
    if not isinstance(brokers, list) or not brokers:
        raise UserError(f"{path} does not say how many brokers there are: remove it, or restore it")
    return tuple(
        KnownBroker(broker_id(each, index), _number(each, "slot", index))
        for index, each in enumerate(brokers)
    )


def broker_id(broker: object, index: int) -> int:
    """The id of a broker in the state, where it is the one with this index."""
    return _number(broker, "id", index)


def _number(broker: object, field: str, default: int) -> int:
    found = broker.get(field) if isinstance(broker, dict) else None
    return found if isinstance(found, int) else default
