"""`groups --delete-offsets`: removes committed offsets of topics, as kafka-consumer-groups does."""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.client.admin import Admin
from cluster.client.cluster_requests import broker_addresses
from cluster.client.group_requests import delete_offsets
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.client.timeouts import POLL_S
from cluster.model.error_codes import ErrorCode
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.tools.arguments import UsageError
from cluster.tools.groups.reset import named_partitions
from cluster.tools.groups.tables import deleted_offsets_table

Outcomes = dict[tuple[str, int | None], ErrorCode]
"""What became of each partition; of a topic that does not exist there is one without a number."""

_CLIENT_ID: Final = "milena-groups"
_PATIENCE_S: Final = 10.0
_TRANSIENT: Final = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
_OF_THE_GROUP: Final = {
    ErrorCode.invalid_group_id: "'{group}' is not valid.",
    ErrorCode.group_id_not_found: "'{group}' does not exist.",
    ErrorCode.group_authorization_failed: "Access to '{group}' is not authorized.",
    ErrorCode.non_empty_group: (
        "Deleting offsets of a consumer group '{group}' is forbidden if the group is not empty."
    ),
}


def run_delete_offsets(admin: Admin, args: argparse.Namespace) -> int:
    """Delete, and print what became of each partition. Returns the exit status.

    Raises UserError where no broker is reached, UsageError for more than one group.
    """
    if len(set(args.group)) != 1:
        raise UsageError("--delete-offsets takes one --group")
    group_id: str = args.group[0]
    counts = admin.facts().partition_counts()
    wanted, outcomes = chosen(args.topic, counts)
    refusal = None
    try:
        if CONSUMER_OFFSETS_TOPIC not in counts:
            raise Refused(ErrorCode.group_id_not_found)
        if wanted:
            outcomes |= _deleted(admin.servers, group_id, wanted)
    except Refused as refused:
        refusal = refused.code
        outcomes |= {
            (topic, number): refusal for topic, numbers in wanted.items() for number in numbers
        }
    failed = refusal is not None or any(outcomes.values())
    _print_outcome(group_id, args.topic, refusal, failed=failed)
    sys.stdout.write("\n" + deleted_offsets_table(outcomes))
    return 1 if failed else 0


def chosen(
    topics: Iterable[str], counts: Mapping[str, int]
) -> tuple[dict[str, list[int]], Outcomes]:
    """The partitions that `--topic` names, by topic; and which topics do not exist.

    A partition that is named by its number is asked for whether it exists or not. Raises
    UsageError for text of another form.
    """
    wanted: dict[str, list[int]] = {}
    missing: Outcomes = {}
    for text in topics:
        name, numbers = named_partitions(text)
        if numbers is None and name not in counts:
            missing[name, None] = ErrorCode.unknown_topic_or_partition
            continue
        some = wanted.setdefault(name, [])
        some += [
            each
            for each in (range(counts[name]) if numbers is None else numbers)
            if each not in some
        ]
    return wanted, missing


def _deleted(servers: Servers, group_id: str, wanted: Mapping[str, list[int]]) -> Outcomes:
    """Ask the brokers in turn: all but the group's coordinator say that they are not it."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        with SocketClient.connect(servers, _CLIENT_ID) as client:
            brokers = broker_addresses(client)
        code, reason = ErrorCode.not_coordinator, ""
        for address in brokers.values():
            try:
                with SocketClient.connect(servers.only(address), _CLIENT_ID) as client:
                    found = delete_offsets(client, group_id, wanted)
                    return {(topic, number): code for (topic, number), code in found.items()}
            except UserError as problem:
                reason = str(problem)
            except Refused as refused:
                if refused.code not in _TRANSIENT:
                    raise
                code = max(code, refused.code, key=_TRANSIENT.index)
        if time.monotonic() > deadline:
            if reason:
                raise UserError(reason)
            raise Refused(code)
        time.sleep(POLL_S)


def _print_outcome(
    group_id: str, topics: Iterable[str], refusal: ErrorCode | None, *, failed: bool
) -> None:
    group = one_line(group_id)
    if refusal is not None:
        text = _OF_THE_GROUP.get(refusal, f"Encounter some unknown error: {refusal.name.upper()}")
        print(f"\nError: {text.format(group=group)}", file=sys.stderr)
    elif failed:
        problem = "Encounter some partition level error, see the follow-up details:"
        print(f"\nError: {problem}", file=sys.stderr)
    else:
        names = ", ".join(map(one_line, topics))
        print(f"Request succeed for deleting offsets with topic {names} group {group}")
