"""Where the brokers of one cluster keep their partitions: `log.dirs`, shared out among them.

Brokers may not share a log directory, so each has a directory of its own below every place that is
named: `disk1,/mnt/disk2` gives broker 0 `DATA_DIR/disk1/broker-0` and `/mnt/disk2/broker-0`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cluster.datadir.state_file import broker_id
from cluster.model.errors import UserError

DEFAULT_PLACES: Final = (".",)
"""The data directory itself."""
META_PROPERTIES: Final = "meta.properties"
"""In every log directory of a broker, ours or Kafka's: it says whose the directory is."""


def parse_places(text: str) -> tuple[str, ...]:
    """The places of a comma-separated list. Raises UserError where it names none, or one twice."""
    places = tuple(part.strip() for part in text.split(",") if part.strip())
    if not places:
        raise UserError("log.dirs is empty: name at least one directory")
    for place in places:
        if places.count(place) > 1:
            raise UserError(f"log.dirs names {place} twice")
    return places


def own_directories(places: Sequence[str], data_dir: Path, broker: int) -> tuple[Path, ...]:
    """The log directories of one broker; a relative place is below the data directory."""
    return tuple(data_dir / place / f"broker-{broker}" for place in places)


def check_places(places: Sequence[str], data_dir: Path) -> None:
    """Raise UserError where a place is itself the log directory of a broker, such as Kafka's.

    Kafka would take what is made in it for partitions.
    """
    for place in places:
        if (data_dir / place / META_PROPERTIES).exists():
            raise UserError(
                f"{data_dir / place} is a log directory of a broker, so no others are made in it:"
                " name another one with --log-dirs"
            )


def remembered_directories(
    state: Mapping[str, Any] | None, data_dir: Path
) -> dict[int, list[Path]]:
    """The log directories that each broker had when the cluster was last started, by its id.

    Those below the data directory are below `data_dir` now: it may have been moved, or be a copy.
    """
    state = {} if state is None else state
    brokers = state.get("brokers")
    if not isinstance(brokers, list):
        return {}
    before = Path(str(state.get("data_dir", data_dir)))
    return {
        broker_id(broker, index): [
            data_dir / path.relative_to(before) if path.is_relative_to(before) else path
            for path in _paths_of(broker)
        ]
        for index, broker in enumerate(brokers)
    }


def shared_directories(state: Mapping[str, Any] | None, data_dir: Path) -> list[Path]:
    """The log directories elsewhere of a data directory that was copied or moved since the last
    start: those of the original, if it is a copy.

    A copy also reaches them by `..` in a path, and by symbolic links that were copied.
    """
    home = data_dir.resolve()
    if state is None or Path(str(state.get("data_dir", data_dir))).resolve() == home:
        return []
    return [
        path
        for paths in remembered_directories(state, data_dir).values()
        for path in paths
        if not path.resolve().is_relative_to(home)
    ]


def _paths_of(broker: object) -> list[Path]:
    found = broker.get("log_dirs") if isinstance(broker, dict) else None
    return (
        [Path(path) for path in found if isinstance(path, str)] if isinstance(found, list) else []
    )


def places_of(directories: Mapping[int, Sequence[Path]]) -> tuple[str, ...] | None:
    """The places that gave these directories; None where no start has written them down."""
    first = next(iter(directories.values()), ())
    return tuple(str(path.parent) for path in first) or None


def missing_directories(
    before: Mapping[int, Sequence[Path]], now: Mapping[int, Sequence[Path]]
) -> list[Path]:
    """What was a log directory at the last start, is still there, and is to be none any more.

    A broker that does not look into it would begin again with empty replicas.
    """
    kept = {path for paths in now.values() for path in paths}
    return [
        path for paths in before.values() for path in paths if path not in kept and path.exists()
    ]
