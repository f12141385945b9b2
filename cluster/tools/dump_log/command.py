"""`dump-log`: prints the files of a log as Kafka's kafka-dump-log does, line for line.

Differs where that tool ends with a stack trace: the damage is reported in one line, and the
other files are still read; the exit status is 1.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.log.producer_snapshots import SUFFIX as SNAPSHOT_SUFFIX
from cluster.log.segment_paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from cluster.log.transaction_index import SUFFIX as TRANSACTION_INDEX_SUFFIX
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.dump_log.index_files import IndexOptions, index_lines, time_index_lines
from cluster.tools.dump_log.log_files import Decoder, LogOptions, log_lines, plain_text
from cluster.tools.dump_log.report import Report
from cluster.tools.dump_log.small_files import (
    CHECKPOINT_ENDING,
    PROPERTY_FILES,
    checkpoint_lines,
    property_lines,
    snapshot_lines,
    transaction_index_lines,
)
from cluster.tools.stored_batches import NO_LIMIT, AllocatedAhead, Unreadable
from cluster.tools.stored_file import StoredFile, opened

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_MESSAGE_MAX_BYTES: Final = 5 * 1024 * 1024
_REFUSED: Final = {
    "--key-decoder-class": "classes of Java are not loaded here",
    "--value-decoder-class": "classes of Java are not loaded here",
    "--cluster-metadata-decoder": "there is no KRaft metadata log",
    "--remote-log-metadata-decoder": "there is no remote tier",
}
"""Options of Kafka's tool that cannot be carried out, and why."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `dump-log` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "dump-log",
        "dump-log var/broker-0/orders-0",
        "dump-log --print-data-log var/broker-0/orders-0/00000000000000000000.log",
        "dump-log --index-sanity-check --files A.index,B.timeindex",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="a file, or a directory for all of its files that can be shown",
    )
    parser.add_argument(
        "--files", default="", metavar="FILE,...", help="files in the way of Kafka's tool"
    )
    for option, what in (
        ("--print-data-log", "print keys and values; implies --deep-iteration"),
        ("--deep-iteration", "print the records, not the batches alone"),
        ("--skip-record-metadata", "print keys and values of records, nothing else of them"),
        ("--verify-index-only", "compare indexes with the log, print no entry"),
        ("--index-sanity-check", "check only whether a start would rebuild the indexes"),
        ("--offsets-decoder", "keys and values are those of __consumer_offsets"),
        ("--transaction-log-decoder", "keys and values are those of __transaction_state"),
    ):
        parser.add_argument(option, action="store_true", help=what)
    parser.add_argument(
        "--max-message-size",
        type=at_least_one,
        default=_MESSAGE_MAX_BYTES,
        metavar="BYTES",
        help="the largest batch that an index may point at (default: %(default)s)",
    )
    parser.add_argument(
        "--max-bytes",
        type=at_least_one,
        default=NO_LIMIT,
        metavar="BYTES",
        help="read no more than this of each log",
    )
    for option in _REFUSED:
        parser.add_argument(option, nargs="?", const="", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print every file. Returns 1 when one could not be read to its end, else 0."""
    paths = _chosen(args)
    decoder = _decoder(args)
    log_options = LogOptions(
        decoder,
        is_deep=args.deep_iteration or decoder is not None,
        skips_metadata=args.skip_record_metadata,
        max_bytes=min(args.max_bytes, NO_LIMIT),
    )
    index_options = IndexOptions(
        args.index_sanity_check, args.verify_index_only, args.max_message_size
    )
    report = Report()
    readers: dict[str, Callable[[StoredFile], Iterator[str]]] = {
        LOG_SUFFIX: lambda file: log_lines(file, log_options, report),
        INDEX_SUFFIX: lambda file: index_lines(file, index_options, report),
        TIME_INDEX_SUFFIX: lambda file: time_index_lines(file, index_options, report),
        SNAPSHOT_SUFFIX: snapshot_lines,
        TRANSACTION_INDEX_SUFFIX: transaction_index_lines,
        **dict.fromkeys(PROPERTY_FILES, property_lines),
        CHECKPOINT_ENDING: checkpoint_lines,
    }
    status = 0
    for path in paths:
        print(f"Dumping {one_line(str(path), None)}")
        reader = readers.get(_kind(path))
        if reader is None:
            print(f"Ignoring unknown file {one_line(str(path), None)}", file=sys.stderr)
            continue
        try:
            with opened(path) as file:
                for text in reader(file):
                    print(text)
        except AllocatedAhead as end:
            print(f"note: {one_line(f'{path}: {end}', None)}", file=sys.stderr)
        except Unreadable as problem:
            status = _complain(f"{path}: {problem}")
        except UserError as problem:
            status = _complain(str(problem))
    for line in report.lines():
        print(line, file=sys.stderr)
    return status


def _chosen(args: argparse.Namespace) -> list[Path]:
    """The files to print, in order. Raises UsageError, UserError."""
    for option, reason in _REFUSED.items():
        if getattr(args, option[2:].replace("-", "_")) is not None:
            raise UsageError(f"{option} is not supported: {reason}")
    if args.offsets_decoder and args.transaction_log_decoder:
        raise UsageError("--offsets-decoder does not go with --transaction-log-decoder")
    given = [*args.paths, *(Path(name) for name in args.files.split(",") if name)]
    if not given:
        raise UsageError("dump-log needs files, or --files")
    return [path for each in given for path in _files_of(each)]


def _files_of(path: Path) -> list[Path]:
    """The file, or those of a directory that can be shown, by name. Raises UserError."""
    if not path.is_dir():
        return [path]
    try:
        names = sorted(path.iterdir())
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from None
    found = [each for each in names if each.is_file() and _kind(each) in _SHOWN]
    if not found:
        raise UserError(f"{path} has no file of a log")
    return found


_SHOWN: Final = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    CHECKPOINT_ENDING,
    *PROPERTY_FILES,
)


def _kind(path: Path) -> str:
    """The whole name where that says what a file is, else its ending."""
    if path.name in PROPERTY_FILES:
        return path.name
    return CHECKPOINT_ENDING if path.name.endswith(CHECKPOINT_ENDING) else path.suffix


def _decoder(args: argparse.Namespace) -> Decoder | None:
    if args.offsets_decoder or args.transaction_log_decoder:
        from cluster.tools.dump_log.internal_topics import decoded_offsets, decoded_transactions

        return decoded_offsets if args.offsets_decoder else decoded_transactions
    return plain_text if args.print_data_log else None


def _complain(problem: str) -> int:
    print(f"error: {one_line(problem, None)}", file=sys.stderr)
    return 1
