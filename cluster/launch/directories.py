"""The data directory and log directories of a start, checked against what they hold already."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cluster.datadir.directory_claims import claim_shared_directories
from cluster.datadir.log_dirs import (
    DEFAULT_PLACES,
    check_places,
    missing_directories,
    own_directories,
    parse_places,
    places_of,
    remembered_directories,
    shared_directories,
)
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import check_version, draft_of, read_state
from cluster.model.errors import UserError
from cluster.runtime.installation import shown


def claim_directory(files: DataDir, log_dirs: str | None) -> None:
    """Create the data directory. Raises UserError if it holds files of another program, or of a
    newer Milena.

    Directories for partitions may exist already, as mount points of disks.
    """
    check_version(files.state_file)
    try:
        files.path.mkdir(parents=True, exist_ok=True)
        draft = draft_of(files.state_file).name  # of a first start that was killed
        ours = {files.run.name, files.logs.name, files.state_file.name, draft, "rollup"}
        ours |= {files.security.name, files.clients.name, files.dashboard_password.name}
        for place in parse_places(log_dirs or "."):
            ours.update(Path(place).parts[:1])
        present = {entry.name for entry in files.path.iterdir()}
        if files.state_file.name not in present and not present <= ours:
            raise UserError(
                f"{files.path} holds files that are not Milena's: choose another --data-dir"
            )
        files.run.mkdir(mode=0o700, exist_ok=True)
        files.logs.mkdir(exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot use {files.path}: {problem.strerror}") from None


def take_shared_directories(
    files: DataDir, state: Mapping[str, Any] | None, note: Callable[[str], None]
) -> None:
    """Say in one line if a copied or moved data directory has log directories elsewhere: a copy
    would write to those of the original. From now on neither removes them while both exist.
    """
    claim_shared_directories(state, files.path)
    elsewhere = shared_directories(state, files.path)
    if state is not None and elsewhere:
        before = shown(Path(state["data_dir"]))
        note(
            f"Warning: {shown(files.path)} was {before} at the last start, and its brokers"
            f" keep using {elsewhere[0].parent}: do not run both if one is a copy of the other."
        )


def log_directories(
    named: str | None, files: DataDir, brokers: Iterable[int]
) -> dict[int, tuple[Path, ...]]:
    """The log directories of each of these brokers, by id. Raises UserError if replicas would be
    left out.
    """
    before = remembered_directories(read_state(files.state_file), files.path)
    places = parse_places(named) if named is not None else places_of(before) or DEFAULT_PLACES
    check_places(places, files.path)
    directories = {each: own_directories(places, files.path, each) for each in brokers}
    missing = missing_directories(before, directories)
    if missing:
        raise UserError(
            f"{missing[0]} holds replicas, which would be lost: keep {missing[0].parent} in"
            " --log-dirs, or `stop --purge` first"
        )
    return directories
