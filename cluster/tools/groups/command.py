"""`groups`: lists, describes, deletes and resets groups, as kafka-consumer-groups does."""

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.client.admin import Admin
from cluster.client.consumer_group_requests import (
    Committed,
    commit_offsets,
    delete_group,
    list_groups,
)
from cluster.client.consumer_group_requests import committed as committed_by
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import integer, not_negative
from cluster.tools.arguments import UsageError, add_command
from cluster.tools.groups import reset, tables
from cluster.tools.groups.delete_offsets import run_delete_offsets
from cluster.tools.groups.subcommands import GROUP_COMMANDS
from cluster.tools.kafka_connection import add_servers, admin_of
from cluster.tools.missing_rights import right_hint
from cluster.views.group_lags import REBALANCING
from cluster.views.groups.described_groups import DEAD, EMPTY, Group, describe_group
from cluster.views.groups.new_offsets import (
    NewOffsets,
    Target,
    earliest_offsets,
    latest_offsets,
    new_offsets,
    within,
)

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-groups"
_TARGETS: Final = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
)
_STATES: Final = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    *("Assigning", "Reconciling"),
)
_TYPES: Final = ("Classic", "Consumer")
_ACTIONS_OF: Final = {
    "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
    "all_groups": ("describe", "delete", "reset-offsets"),
    "offsets": ("describe",),
    "members": ("describe",),
    "verbose": ("describe",),
    "type": ("list",),
    "topic": ("reset-offsets", "delete-offsets"),
    "all_topics": ("reset-offsets",),
    "dry_run": ("reset-offsets",),
    "execute": ("reset-offsets",),
    "export": ("reset-offsets",),
    **dict.fromkeys(_TARGETS, ("reset-offsets",)),
}
"""Options by the actions that use them; with another action they are wrong usage."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `groups` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "groups",
        "groups list --state",
        "groups describe billing",
        "groups --describe --group billing --members --verbose",
        "groups --delete-offsets --group billing --topic orders:0,1",
        "groups --reset-offsets --group billing --topic orders --to-earliest --execute",
        "groups explain billing",
        "groups report --group billing",
    )
    _add_subcommands(parser)
    actions = parser.add_mutually_exclusive_group()
    for name, what in (
        ("list", "print the names of groups"),
        ("describe", "print offsets and lag, members or state of groups"),
        ("delete", "delete groups without members, and their offsets"),
        ("reset-offsets", "set the offsets of groups without members"),
        ("delete-offsets", "delete the offsets of topics that a group does not read any more"),
    ):
        actions.add_argument(
            f"--{name}", dest="action", action="store_const", const=name, help=what
        )
    parser.accept_words(_ACTIONS, name="--group", many=True)
    parser.add_argument("--group", action="append", metavar="G", help="a group; may be repeated")
    parser.add_argument("--all-groups", action="store_true", help="instead of --group: every group")
    parser.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATE[,STATE...]",
        help="with --list: also the states, or only groups in one of these; with --describe: the"
        " state of each group",
    )
    parser.add_argument(
        "--type",
        nargs="?",
        const="",
        metavar="TYPE[,TYPE...]",
        help="with --list: also the types (classic, consumer), or only groups of one of these",
    )
    for option, what in (
        ("--offsets", "describe offsets and lag of each partition (the default)"),
        ("--members", "describe the members"),
        (
            "--verbose",
            "also what each member has; with --offsets: leader epochs; with --state: the epochs",
        ),
    ):
        parser.add_argument(option, action="store_true", help=what)
    parser.add_argument(
        "--topic", action="append", metavar="T[:0,1]", help="whose offsets; may be repeated"
    )
    parser.add_argument(
        "--all-topics", action="store_true", help="every topic of which the group has offsets"
    )
    _add_targets(parser)
    modes = parser.add_mutually_exclusive_group()
    for option, what in (
        ("--dry-run", "print the new offsets only (the default)"),
        ("--execute", "set them"),
        ("--export", "print them for --from-file only"),
    ):
        modes.add_argument(option, action="store_true", help=what)
    add_servers(parser)


def _add_subcommands(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(
        title="sub-commands", metavar="SUB-COMMAND", dest="group_command"
    )
    for command in GROUP_COMMANDS.values():
        importlib.import_module(f"cluster.tools.{command.module}").add_parser(subcommands)


def _add_targets(parser: argparse.ArgumentParser) -> None:
    targets = parser.add_mutually_exclusive_group()
    for option, what in (
        ("--to-earliest", "the beginning of each partition"),
        ("--to-latest", "the end of each partition"),
        ("--to-current", "the committed offset; the end where there is none"),
    ):
        targets.add_argument(option, action="store_true", help=what)
    targets.add_argument("--to-offset", type=not_negative, metavar="N", help="an offset")
    targets.add_argument(
        "--shift-by",
        type=integer,
        metavar="N",
        help="this many records after the committed offset, or before it (-N)",
    )
    targets.add_argument(
        "--to-datetime",
        type=_read_by(reset.timestamp_of),
        metavar="YYYY-MM-DDTHH:mm:SS.sss",
        help="the first record of this time or later, UTC",
    )
    targets.add_argument(
        "--by-duration",
        type=_read_by(reset.duration_of),
        metavar="PnDTnHnMnS",
        help="the first record that is no older",
    )
    targets.add_argument(
        "--from-file", type=Path, metavar="FILE", help="lines of topic,partition,offset"
    )


def _read_by(read: Callable[[str], int]) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            return read(text)
        except UsageError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return parse


def run(args: argparse.Namespace) -> int:
    """Carry out the action; print a refusal as Kafka's tool does. Returns the exit status."""
    if args.group_command is not None:
        module = GROUP_COMMANDS[args.group_command].module
        status: int = importlib.import_module(f"cluster.tools.{module}").run(args)
        return status
    _check(args)
    with admin_of(args, _CLIENT_ID) as admin:
        try:
            return _ACTIONS[args.action](admin, args)
        except Refused as refused:
            return _complain(f"{reason_of(refused)}{right_hint(refused.code, args)}")


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go together."""
    if args.action is None:
        raise UsageError(f"say what to do: {', '.join([*_ACTIONS, *GROUP_COMMANDS])}")
    for option, actions in _ACTIONS_OF.items():
        given = getattr(args, option)
        if given not in (None, False) and args.action not in actions:
            raise UsageError(f"--{option.replace('_', '-')} does not go with --{args.action}")
    if args.state is not None and args.action not in ("list", "describe"):
        raise UsageError(f"--state does not go with --{args.action}")
    if args.action == "delete-offsets":
        if not args.group or not args.topic:
            raise UsageError("--delete-offsets needs --group and --topic")
    elif args.action != "list" and bool(args.group) == args.all_groups:
        raise UsageError(f"--{args.action} needs --group or --all-groups")
    if args.action == "list":
        _chosen_of("states", args.state or ",".join(_STATES), _STATES)
        _chosen_of("types", args.type or ",".join(_TYPES), _TYPES)
    if args.action == "describe":
        _check_description(args)
    if args.action == "reset-offsets":
        if all(getattr(args, target) in (None, False) for target in _TARGETS):
            raise UsageError("--reset-offsets needs a target, such as --to-earliest")
        if args.from_file is None and bool(args.topic) == args.all_topics:
            raise UsageError("--reset-offsets needs --topic or --all-topics")
        if args.from_file is not None and (args.topic or args.all_topics):
            raise UsageError("--from-file does not go with --topic or --all-topics")


def _check_description(args: argparse.Namespace) -> None:
    if (args.state is not None) + args.offsets + args.members > 1:
        raise UsageError("--describe takes one of --offsets, --members and --state")
    if args.state:
        raise UsageError("--describe takes --state without a value")


def _chosen_groups(admin: Admin, args: argparse.Namespace) -> list[str]:
    if args.all_groups:
        return sorted({each.group_id for each in list_groups(admin)})
    return list(dict.fromkeys(args.group))


# -- list and describe -----------------------------------------------------------------------------


def _list(admin: Admin, args: argparse.Namespace) -> int:
    listed = list_groups(admin)
    states = {each.group_id: each.group_state for each in listed}
    names = set(states)
    if args.state:
        wanted_states = _chosen_of("states", args.state, _STATES)
        names = {name for name, state in states.items() if state.lower() in wanted_states}
    types = None
    if args.type is not None:
        types = {each.group_id: (each.group_type or _TYPES[0]).capitalize() for each in listed}
        wanted_types = _chosen_of("types", args.type or ",".join(_TYPES), _TYPES)
        names &= {name for name, kind in types.items() if kind.lower() in wanted_types}
    with_states = states if args.state is not None else None
    sys.stdout.write(tables.listed(names, types, with_states))
    return 0


def _chosen_of(what: str, text: str, valid: Sequence[str]) -> set[str]:
    """The names of a comma-separated list, in small letters. Raises UsageError for others."""
    chosen = {each.strip().lower() for each in text.split(",")}
    if not chosen <= {each.lower() for each in valid}:
        raise UsageError(f"Invalid {what} list '{text}'. Valid {what} are: {', '.join(valid)}")
    return chosen


def _describe(admin: Admin, args: argparse.Namespace) -> int:
    status = 0
    for name in _chosen_groups(admin, args):
        group = describe_group(admin, name)
        if group.state == DEAD:
            status = _complain(f"Consumer group '{one_line(name)}' does not exist.")
            continue
        if args.state is not None:
            text = tables.state_table(group, is_verbose=args.verbose)
        elif args.members:
            _note_state(group)
            text = tables.members_table(group, is_verbose=args.verbose) if group.members else ""
        else:
            _note_state(group)
            found = committed_by(admin, name)
            committed = _offsets(found)
            assigned = {place for member in group.members for place in member.assignment}
            counts = admin.facts().partition_counts()
            places = [
                place
                for place in {*committed, *assigned}
                if place.partition < counts.get(place.topic, 0)
            ]
            ends = latest_offsets(admin, places)
            epochs = {
                place: each.leader_epoch
                for place, each in found.items()
                if each.leader_epoch is not None
            }
            shown_epochs = epochs if args.verbose else None
            text = ""
            if committed or assigned:
                text = tables.offsets_table(group, committed, ends, shown_epochs)
        sys.stdout.write(f"\n{text}" if text else "")
    return status


def _offsets(committed: Mapping[Place, Committed]) -> dict[Place, int]:
    return {place: each.offset for place, each in committed.items()}


def _note_state(group: Group) -> None:
    if group.state == EMPTY:
        print(f"\nConsumer group '{one_line(group.name)}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(
            f"\nWarning: Consumer group '{one_line(group.name)}' is rebalancing.", file=sys.stderr
        )


# -- delete and reset ------------------------------------------------------------------------------


def _delete(admin: Admin, args: argparse.Namespace) -> int:
    deleted, failed = [], []
    for name in _chosen_groups(admin, args):
        try:
            delete_group(admin, name)
        except Refused as refused:
            failed.append(
                f"* Group '{one_line(name)}' could not be deleted due to: {reason_of(refused)}"
                f"{right_hint(refused.code, args, [name])}"
            )
        else:
            deleted.append(f"'{one_line(name)}'")
    if not failed:
        print(f"Deletion of requested consumer groups ({', '.join(deleted)}) was successful.")
        return 0
    if deleted:
        print(f"These consumer groups were deleted successfully: {', '.join(deleted)}")
    return _complain("\n".join(["Deletion of some consumer groups failed:", *failed]))


def _reset(admin: Admin, args: argparse.Namespace) -> int:
    status = 0
    chosen = _chosen_groups(admin, args)
    is_one = len(args.group or ()) == 1  # Kafka's tool goes by what was asked for
    for name in chosen:
        state = describe_group(admin, name).state
        if state not in (EMPTY, DEAD):
            status = _complain(
                f"Assignments can only be reset if the group '{one_line(name)}' is inactive,"
                f" but the current state is {state}."
            )
            continue
        current = _offsets(committed_by(admin, name))
        if args.from_file is not None:
            plans = reset.from_csv(
                _content(args.from_file), str(args.from_file), [name] if is_one else []
            )
            if name not in plans:
                status = _complain(f"No reset plan for group {one_line(name)} found")
                continue
            offsets = _planned_offsets(admin, plans[name])
        else:
            offsets = _new_offsets(admin, args, current)
        if args.execute and offsets:
            commit_offsets(admin, name, offsets)
        if args.export:
            sys.stdout.write(reset.as_csv(offsets, None if is_one else name))
        else:
            sys.stdout.write(f"\n{tables.reset_table(name, offsets)}")
    if not args.execute and not args.export:
        print("Nothing is changed without --execute.", file=sys.stderr)
    return status


def _new_offsets(
    admin: Admin, args: argparse.Namespace, current: dict[Place, int]
) -> dict[Place, int]:
    counts = admin.facts().partition_counts()
    if args.all_topics:
        places = [place for place in current if place.partition < counts.get(place.topic, 0)]
    else:
        places = reset.chosen_places(args.topic, counts)
    target, amount = _target(args)
    return _warned(new_offsets(admin, places, current, target, amount))


def _target(args: argparse.Namespace) -> tuple[Target, int]:
    """The target that was given, and its amount if it has one."""
    if args.by_duration is not None:
        return Target.TIME, time.time_ns() // 1_000_000 - args.by_duration
    for target in Target:
        given = getattr(args, target.value.replace("-", "_"))
        if given is not None and given is not False:
            return target, int(given)
    raise AssertionError(args)


def _planned_offsets(admin: Admin, plan: dict[Place, int]) -> dict[Place, int]:
    """Those of a file. Raises UsageError for a partition that does not exist."""
    names = (f"{at.topic}:{at.partition}" for at in plan)
    places = reset.chosen_places(names, admin.facts().partition_counts())
    return _warned(within(plan, earliest_offsets(admin, places), latest_offsets(admin, places)))


def _warned(found: NewOffsets) -> dict[Place, int]:
    for warning in found.warnings:
        print(f"WARN {one_line(warning)}", file=sys.stderr)
    return found.offsets


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as problem:
        why = problem.strerror or str(problem)
    except UnicodeDecodeError as problem:
        why = str(problem)
    raise UserError(f"cannot read {one_line(str(path))}: {why}")


_ACTIONS: Final[dict[str, Callable[[Admin, argparse.Namespace], int]]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": run_delete_offsets,
}


def _complain(message: str) -> int:
    print(f"\nError: {message}", file=sys.stderr)
    return 1
