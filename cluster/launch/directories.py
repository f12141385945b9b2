"""The data directory and log directories of a start, checked against what they hold already."""

from collections.abc import Iterable
from pathlib import Path

from cluster.datadir.log_dirs import (
    DEFAULT_PLACES,
    check_places,
    missing_directories,
    own_directories,
    parse_places,
    places_of,
    remembered_directories,
)
from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import draft_of, read_state
from cluster.model.errors import UserError


def claim_directory(files: DataDir, log_dirs: str | None) -> None:
    """Create the data directory. Raises UserError if it holds files of another program.

    Directories for partitions may exist already, as mount points of disks.
    """
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
