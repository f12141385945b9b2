"""`delete-records`: deletes records up to an offset; its file and its output are Kafka's."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.client.record_requests import delete_records
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import integer, not_negative
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.kafka_connection import add_servers, admin_of
from cluster.tools.missing_rights import right_hint

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_HIGH_WATERMARK: Final = -1
_VERSION: Final = 1
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `delete-records` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "delete-records",
        "delete-records --topic orders --partition 0 --before-offset 500",
        "delete-records orders --partition 0 --before-offset -1",
        "delete-records --offset-json-file offsets.json",
    )
    parser.add_argument(
        "--offset-json-file",
        type=Path,
        metavar="FILE",
        help='{"partitions": [{"topic": "orders", "partition": 0, "offset": 500}], "version": 1}',
    )
    parser.add_argument("--topic", metavar="T", help="of the one partition to be cut")
    parser.add_argument("--partition", type=not_negative, metavar="N", help="its number")
    parser.add_argument(
        "--before-offset",
        type=integer,
        metavar="N",
        help="the first offset that stays; -1 deletes all records",
    )
    parser.accept_words(name="--topic")
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Delete, and print the outcome of each partition; 1 where one of them was refused."""
    offsets = _asked(args)
    with admin_of(args, "milena-delete-records") as admin:
        print("Executing records delete operation", flush=True)
        outcomes = delete_records(admin, offsets)
    status = 0
    lines = []
    for (topic, number), (code, low_watermark) in outcomes.items():
        outcome = f"low_watermark: {low_watermark}"
        if code is not ErrorCode.none:
            outcome = f"error: {reason_of(Refused(code))}{right_hint(code, args, [topic])}"
            status = 1
        lines.append((topic, number, outcome))
    print("Records delete operation completed:")
    for topic, number, outcome in sorted(lines):
        print(f"partition: {one_line(topic)}-{number}\t{outcome}")
    return status


def _asked(args: argparse.Namespace) -> dict[Place, int]:
    """What the options ask for. Raises UsageError and UserError."""
    single = (args.topic, args.partition, args.before_offset)
    if args.offset_json_file is not None:
        if any(option is not None for option in single):
            raise UsageError(
                "--offset-json-file does not go with --topic, --partition, --before-offset"
            )
        return read_offsets(args.offset_json_file)
    if any(option is None for option in single):
        raise UsageError(
            "takes --offset-json-file, or --topic with --partition and --before-offset"
        )
    _check(args.topic, args.partition, args.before_offset, "the options")
    return {Place(args.topic, args.partition): args.before_offset}


def read_offsets(path: Path) -> dict[Place, int]:
    """The offsets of a file as kafka-delete-records takes it. Raises UserError."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is not JSON: {problem}") from None
    if not isinstance(content, Mapping) or not isinstance(content.get("partitions"), Sequence):
        raise UserError(f"{path}: a list `partitions` is missing")
    version = content.get("version", _VERSION)
    if version != _VERSION:
        raise UserError(f"{path}: version {one_line(str(version))} is not supported, only 1 is")
    offsets: dict[Place, int] = {}
    for at, row in enumerate(content["partitions"]):
        where = f"{path}: partitions[{at}]"
        if not isinstance(row, Mapping):
            raise UserError(f"{where} is not an object")
        topic: Any = row.get("topic")
        number: Any = row.get("partition")
        offset: Any = row.get("offset")
        _check(topic, number, offset, where)
        if (topic, number) in offsets:
            raise UserError(f"{where}: {one_line(topic)}-{number} is there twice")
        offsets[Place(topic, number)] = offset
    return offsets


def _check(topic: Any, number: Any, offset: Any, where: str) -> None:
    """Raise UserError unless these name a partition and an offset."""
    if not isinstance(topic, str) or not topic:
        raise UserError(f"{where}: topic must be a name")
    for name, value, most in (("partition", number, _INT32_MAX), ("offset", offset, _INT64_MAX)):
        least = _HIGH_WATERMARK if name == "offset" else 0
        if type(value) is not int or not least <= value <= most:
            raise UserError(f"{where}: {name} must be a whole number from {least} to {most}")
