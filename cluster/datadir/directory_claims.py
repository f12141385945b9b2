"""Which data directories a broker's log directory belongs to, if one of them was copied.

A copied or moved data directory reaches the log directories elsewhere of its original. When it is
started, each of these gets a file with both; a data directory that is gone claims nothing.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cluster.config.properties_file import read_properties_file
from cluster.datadir.log_dirs import META_PROPERTIES, remembered_directories, shared_directories
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import read_state
from cluster.model.errors import UserError
from cluster.runtime.installation import shown

CLAIMS: Final = "milena.data-directories"
"""The file lists the data directories that use its log directory, one path on each line."""


def claim_shared_directories(state: Mapping[str, Any] | None, data_dir: Path) -> None:
    """Note in the log directories elsewhere that the data directory uses them like the one that it
    was at the last start, by its `state`.
    """
    shared = shared_directories(state, data_dir)
    if state is None or not shared:
        return
    both = [Path(str(state["data_dir"])), data_dir.resolve()]
    for path in shared:
        if not (path / META_PROPERTIES).exists():
            continue
        known = _claims(path)
        added = [each for each in both if each not in known]
        # A disk that cannot be written to is the broker's to report; nor can it be purged.
        with suppress(OSError):
            lines = "".join(f"{each}\n" for each in [*known, *added])
            draft = path / f"{CLAIMS}.new"
            draft.write_bytes(os.fsencode(lines))
            draft.replace(path / CLAIMS)


def why_kept(path: Path, broker: int, cluster_id: str | None, data_dir: Path) -> str | None:
    """Why the log directory of a broker is not removed with the data directory; None if it is.

    Raises OSError.
    """
    home = data_dir.resolve()
    if path.resolve().is_relative_to(home):
        return None
    others = [each for each in _claims(path) if each.resolve() != home and _uses(each, path)]
    if others:
        return (
            f"{', '.join(map(shown, others))} has replicas there, too, and removes them when it is"
            " purged."
        )
    try:
        mark = read_properties_file(path / META_PROPERTIES).texts
    except UserError as problem:
        return f"{problem}."
    found = mark.get("broker.id", "?"), mark.get("cluster.id", "?")
    if found[0] != str(broker) or cluster_id not in (None, found[1]):
        return (
            f"its {META_PROPERTIES} names broker {found[0]} of cluster {found[1]}. If nothing needs"
            " it, remove it yourself."
        )
    return None


def _claims(path: Path) -> list[Path]:
    """Raises OSError."""
    try:
        content = (path / CLAIMS).read_bytes()
    except FileNotFoundError:
        return []
    return [Path(os.fsdecode(line)) for line in content.splitlines() if line]


def _uses(data_dir: Path, path: Path) -> bool:
    """Whether a data directory exists and has that log directory."""
    files = DataDir(data_dir)
    try:
        directories = remembered_directories(read_state(files.state_file), files.path)
    except UserError:  # whoever cannot tell may use it
        return True
    known = {each.resolve() for paths in directories.values() for each in paths}
    return path.resolve() in known
