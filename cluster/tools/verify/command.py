"""`verify`: checks every log of a data directory and changes nothing; the cluster may run."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.datadir.log_dirs import META_PROPERTIES, remembered_directories
from cluster.datadir.state_file import read_state
from cluster.log.segment_check import Hole
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.tools.arguments import add_command, data_dir
from cluster.tools.verify.log_checks import LogFindings, check_log, partitions_in

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_MEBIBYTE: Final = 1 << 20

Findings = list[tuple[int | None, Path, list[LogFindings]]]
"""By broker, None where it is not known, and log directory."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `verify` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "verify",
        "verify",
        "verify --topic orders --broker 1",
        "verify --json /disk/kafka",
    )
    parser.add_argument(
        "directories",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="log directories of brokers, also of Kafka (default: all of the cluster)",
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="T", help="this topic only; may be repeated"
    )
    parser.add_argument(
        "--broker",
        action="append",
        type=int,
        default=[],
        metavar="N",
        help="logs of this broker only; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="one object with all that was found")


def run(args: argparse.Namespace) -> int:
    """Check the logs and print what was found. Returns 1 where something is damaged."""
    topics = frozenset(args.topic)
    found: Findings = []
    for broker, directory in _directories(args):
        logs = []
        for partition, path in partitions_in(directory, topics):
            log = check_log(partition, path)
            logs.append(log)
            if not args.json and not log.is_good:
                _print_log(broker, log)
        found.append((broker, directory, logs))
        if not args.json:
            _print_summary(broker, directory, logs)
    if args.json:
        print(json.dumps(_as_json(found), indent=2))
    is_good = all(log.is_good for _, _, logs in found for log in logs)
    if not is_good and not args.json:
        for line in _advice(found):
            print(line)
    return 0 if is_good else 1


def _directories(args: argparse.Namespace) -> list[tuple[int | None, Path]]:
    """The log directories to look into. Raises UserError."""
    if args.directories:
        return [(_broker_of(path), path) for path in args.directories]
    files = data_dir(args)
    state = read_state(files.state_file)
    by_broker = remembered_directories(state, files.path)
    if not by_broker:
        raise UserError(f"no cluster has been started in {files.path}: name one with --data-dir")
    unknown = [number for number in args.broker if number not in by_broker]
    if unknown:
        known = ", ".join(map(str, by_broker))
        raise UserError(f"there is no broker {unknown[0]}: choose one of {known}")
    return [
        (number, path)
        for number, paths in by_broker.items()
        for path in paths
        if not args.broker or number in args.broker
    ]


def _broker_of(directory: Path) -> int | None:
    """The broker that `meta.properties` names."""
    try:
        lines = (directory / META_PROPERTIES).read_text(errors="replace").splitlines()
    except OSError:
        return None
    ids = [
        line.partition("=")[2].strip()
        for line in lines
        if line.startswith(("broker.id", "node.id"))
    ]
    return int(ids[0]) if ids and ids[0].isdecimal() else None


# -- text --------------------------------------------------------------------------------------


def _print_log(broker: int | None, log: LogFindings) -> None:
    whose = "" if broker is None else f"broker {broker}: "
    for damage in log.damages:
        for hole in damage.holes:
            print(
                one_line(
                    f"{whose}{log.partition}: {damage.path} is damaged from byte {hole.position} to"
                    f" {hole.end}, offsets {hole.offset} to {hole.next_offset - 1}: {hole.defect}",
                    None,
                )
            )
        for defect in damage.index_defects:
            print(one_line(f"{whose}{log.partition}: {defect}", None))
    for problem in log.problems:
        print(one_line(f"{whose}{log.partition}: {problem}", None))


def _print_summary(broker: int | None, directory: Path, logs: list[LogFindings]) -> None:
    whose = "" if broker is None else f"broker {broker}: "
    segments = sum(log.segments for log in logs)
    size = sum(log.checked_bytes for log in logs)
    damaged = sum(not log.is_good for log in logs)
    verdict = f"{damaged} damaged" if damaged else "no damage"
    print(
        one_line(
            f"{whose}{directory}: {len(logs)} partitions, {segments} segments,"
            f" {size / _MEBIBYTE:.1f} MiB checked: {verdict}",
            None,
        )
    )


def _advice(found: Findings) -> Iterator[str]:
    """What to do."""
    holes = list(_holes(found))
    if any(healthy for *_, healthy in holes):
        yield (
            "Other replicas have what is damaged: a running cluster repairs it from them, when it"
            " is read or when the scrub comes to it (milena.log.scrub.interval.ms)."
        )
    for broker, log, hole, healthy in holes:
        if not healthy:
            whose = "" if broker is None else f" of broker {broker}"
            yield one_line(
                f"No other replica here has offsets {hole.offset} to {hole.next_offset - 1} of"
                f" {log.partition}{whose}: restore the file from a backup while the broker is"
                " stopped, or have consumers go on at offset"
                f" {hole.next_offset} (groups --reset-offsets).",
                None,
            )
    if any(damage.index_defects for _, _, logs in found for log in logs for damage in log.damages):
        yield "Damaged indexes cost no record: the scrub rebuilds them from the batches."
    if any(log.problems for _, _, logs in found for log in logs):
        yield "What cannot be read was not checked: run the command as the user who owns the files."


def _holes(found: Findings) -> Iterator[tuple[int | None, LogFindings, Hole, list[int | None]]]:
    """Every hole, with the brokers that have what it held."""
    replicas: dict[object, list[tuple[int | None, LogFindings]]] = {}
    for broker, _, logs in found:
        for log in logs:
            replicas.setdefault(log.partition, []).append((broker, log))
    for broker, _, logs in found:
        for log in logs:
            others = [each for each in replicas[log.partition] if each[1] is not log]
            for damage in log.damages:
                for hole in damage.holes:
                    yield broker, log, hole, [other for other, its in others if its.has(hole)]


# -- json --------------------------------------------------------------------------------------


def _as_json(found: Findings) -> Mapping[str, Any]:
    healthy = {(id(log), hole): brokers for _, log, hole, brokers in _holes(found)}
    return {
        "directories": [
            {
                "broker": broker,
                "path": str(directory),
                "partitions": [
                    {
                        "topic": log.partition.topic,
                        "partition": log.partition.partition,
                        "segments": log.segments,
                        "checked_bytes": log.checked_bytes,
                        "damages": [
                            {
                                "file": str(damage.path),
                                "position": hole.position,
                                "end": hole.end,
                                "offset": hole.offset,
                                "next_offset": hole.next_offset,
                                "defect": hole.defect,
                                "healthy_brokers": healthy[id(log), hole],
                            }
                            for damage in log.damages
                            for hole in damage.holes
                        ],
                        "index_defects": [
                            defect for damage in log.damages for defect in damage.index_defects
                        ],
                        "problems": log.problems,
                    }
                    for log in logs
                ],
            }
            for broker, directory, logs in found
        ],
        "is_good": all(log.is_good for _, _, logs in found for log in logs),
    }
