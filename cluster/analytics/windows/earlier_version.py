"""Directories of version 1: a folder for each kind, `progress.json`, and floats."""

from typing import Final

from cluster.analytics.windows.store import Store

_PROGRESS: Final = "progress.json"
_FOLDERS: Final = {"quota": "", "group": "groups/", "lag": "lag/"}
_WIDTH: Final = "10s"


def is_earlier(store: Store) -> bool:
    """Whether files of version 1 are in a directory, which then has no manifest. Raises OSError."""
    return store.exists(_PROGRESS) or any(
        store.list(f"{folder}width={_WIDTH}") for folder in _FOLDERS.values()
    )
