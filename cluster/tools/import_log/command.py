"""`import-log`: reads the directory of a partition and produces its records to a topic.

Kept: keys, values, headers, timestamps, codecs, the order and the batches. Not kept: offsets (they
go on from the partition's end), producers and sequences, leader epochs. Left out: markers, and the
records of transactions that were aborted or had not ended.
"""

import argparse
import json
import sys
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.client.config_requests import described
from cluster.client.partition_writer import PartitionWriter, WriteDenied
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.clock import SystemClock
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.import_log.source import Source, check, parts
from cluster.tools.kafka_connection import add_servers, servers_of
from cluster.tools.missing_rights import right_hint

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-import-log"
_SHOW_EVERY_S: Final = 0.5
_MIB: Final = 1024 * 1024


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `import-log` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "import-log",
        "import-log /var/lib/kafka/orders-0 --topic orders",
        "import-log backup/orders-3 --topic orders --partition 3 --append --json",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="a partition's directory")
    parser.add_argument("--topic", required=True, metavar="T", help="the topic, which must exist")
    parser.add_argument(
        "--partition",
        type=not_negative,
        metavar="P",
        help="its partition (default: the number at the end of the directory's name)",
    )
    parser.add_argument(
        "--append", action="store_true", help="also into a partition that has records"
    )
    parser.add_argument(
        "--from-offset",
        type=not_negative,
        default=0,
        metavar="N",
        help="begin with this offset of the directory, to go on with an import that was stopped",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="import nothing if the directory is damaged (default: everything before the damage)",
    )
    parser.add_argument("--json", action="store_true", help="the summary, for scripts")
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Import the directory. Returns 0, or 1 when it was damaged. Raises UserError."""
    servers = servers_of(args)
    source = check(args.directory, args.from_offset)
    partition = _partition(args, source)
    if source.damage is not None and args.strict:
        raise UserError(f"{source.damage}; nothing was imported")
    try:
        return _import(args, servers, source, partition)
    except WriteDenied as denied:
        raise UserError(f"{denied}{right_hint(denied.code, args)}") from None


def _import(args: argparse.Namespace, servers: Servers, source: Source, partition: int) -> int:
    clock = SystemClock()
    with PartitionWriter(servers, args.topic, partition, _CLIENT_ID, clock, time.sleep) as writer:
        start, end = writer.offset_range()
        if end > start and not args.append:
            raise UserError(
                f"{args.topic}-{partition} has {end - start} records already; --append adds to them"
            )
        _warn_of_retention(servers, args.topic, source.newest_ms, clock.wall_ms())
        started_ms = clock.monotonic_ms()
        done = _send(source, writer, shows=sys.stderr.isatty() and not args.json)
        seconds = (clock.monotonic_ms() - started_ms) / 1000
        summary = _summary(args, partition, source, writer, done, seconds)
    if args.json:
        print(json.dumps(summary, indent=2))
    else:
        print(_text(summary))
    if source.damage is None:
        return 0
    print(
        f"error: {one_line(source.damage, None)}; what is before it was imported", file=sys.stderr
    )
    return 1


def _warn_of_retention(servers: Servers, topic: str, newest_ms: int, now_ms: int) -> None:
    """Say on stderr if the topic will delete all that is imported for its age."""
    try:
        with SocketClient.connect(servers, _CLIENT_ID) as client:
            told = described(client, "topics", topic, ("cleanup.policy", "retention.ms"))
    except Refused:
        return  # without the right to see them, perhaps
    configs = {each.name: each.value for each in told}
    keeps_ms = int(configs.get("retention.ms") or -1)
    if newest_ms < 0 or keeps_ms < 0 or "delete" not in (configs.get("cleanup.policy") or ""):
        return
    if newest_ms + keeps_ms < now_ms:
        newest = datetime.fromtimestamp(newest_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        print(
            f"warning: the newest record is of {newest} and topic {one_line(topic)} keeps records"
            f" for {keeps_ms} ms: it will delete them; set its retention.ms to -1 first",
            file=sys.stderr,
        )


def _partition(args: argparse.Namespace, source: Source) -> int:
    if args.partition is not None:
        return int(args.partition)
    if source.partition is None:
        raise UsageError(
            f"--partition is needed: {args.directory} is not named like a partition (orders-0)"
        )
    return source.partition.partition


class _Done:
    """What has been sent and acknowledged."""

    def __init__(self) -> None:
        self.records = 0
        self.batches = 0
        self.next_offset = -1
        """The source's offset after the last acknowledged record; -1 before the first."""


def _send(source: Source, writer: PartitionWriter, *, shows: bool) -> _Done:
    """Produce everything. Raises UserError, which says how to go on."""
    done = _Done()
    unacknowledged: deque[tuple[int, int]] = deque()
    shown_at = time.monotonic()

    def take_acknowledged() -> None:
        while done.batches < writer.acknowledged_batches:
            count, done.next_offset = unacknowledged.popleft()
            done.records += count
            done.batches += 1

    try:
        try:
            for part in parts(source):
                unacknowledged.append((part.batch.record_count, part.next_offset))
                writer.write(part.batch)
                take_acknowledged()
                if shows and time.monotonic() - shown_at > _SHOW_EVERY_S:
                    shown_at = time.monotonic()
                    _show(part.read_bytes, source, done)
        except Refused as problem:
            source.damage = f"{source.directory} is damaged: {problem.detail}"
        writer.finish()
    except UserError as problem:
        take_acknowledged()
        if not done.batches:
            raise
        raise UserError(
            f"{problem}; {done.records} records are imported, the rest with"
            f" --append --from-offset {done.next_offset}"
        ) from problem
    finally:
        take_acknowledged()
        if shows:
            print("\r\x1b[K", end="", file=getattr(sys.stderr, "raw_text", sys.stderr))
    return done


def _show(read_bytes: int, source: Source, done: _Done) -> None:
    text = (
        f"\r  {read_bytes / _MIB:,.0f} of {source.size_bytes / _MIB:,.0f} MiB,"
        f" {done.records:,} records"
    )
    print(text, end="", flush=True, file=getattr(sys.stderr, "raw_text", sys.stderr))


def _summary(
    args: argparse.Namespace,
    partition: int,
    source: Source,
    writer: PartitionWriter,
    done: _Done,
    seconds: float,
) -> dict[str, Any]:
    left_out = source.left_out
    return {
        "directory": str(args.directory),
        "topic": args.topic,
        "partition": partition,
        "records": done.records,
        "batches": done.batches,
        "read_bytes": source.size_bytes,
        "first_offset": writer.first_offset,
        "end_offset": writer.end_offset,
        "source_end_offset": done.next_offset,
        "converted_records": source.converted_records,
        "left_out": {
            "control_batches": left_out.control_batches,
            "aborted_records": left_out.aborted_records,
            "open_records": left_out.open_records,
            "earlier_records": left_out.earlier_records,
        },
        "damage": source.damage,
        "seconds": round(seconds, 3),
    }


def _text(summary: dict[str, Any]) -> str:
    place = f"{summary['topic']}-{summary['partition']}"
    lines = [
        f"Imported {summary['records']:,} records in {summary['batches']:,} batches from"
        f" {summary['directory']} into {place}"
    ]
    if summary["batches"]:
        lines.append(
            f"  offsets {summary['first_offset']} to {summary['end_offset'] - 1}, the last one was"
            f" {summary['source_end_offset'] - 1} in the directory"
        )
    if summary["converted_records"]:
        lines.append(f"  {summary['converted_records']:,} of them converted from an old format")
    left_out = summary["left_out"]
    for name, what in (
        ("control_batches", "markers of transactions"),
        ("aborted_records", "records of aborted transactions"),
        ("open_records", "records of transactions without an end"),
        ("earlier_records", "records before the start offset"),
    ):
        if left_out[name]:
            lines.append(f"  left out: {left_out[name]:,} {what}")
    mebibytes, seconds = summary["read_bytes"] / _MIB, summary["seconds"]
    rate = f", {mebibytes / seconds:,.1f} MiB/s" if seconds >= 1 else ""
    lines.append(f"  {mebibytes:,.1f} MiB in {seconds:.1f} s{rate}")
    return "\n".join(one_line(line, None) for line in lines)
