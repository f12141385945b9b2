"""`remove-broker`: moves everything away from a broker, stops it, and forgets it.

What was interrupted goes on when the command runs again: reassignments that began continue, and a
broker that holds nothing any more is only stopped.
"""

import argparse
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place
from cluster.datadir.removal import left_lines, remove_directories
from cluster.local.member_orders import remove_broker
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.ids import BrokerId, TopicPartition
from cluster.runtime.installation import launcher, shown
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.arguments import add_command, data_dir, running_state, stated_servers
from cluster.tools.kafka_connection import add_servers, admin_of
from cluster.tools.missing_rights import right_hint

if TYPE_CHECKING:
    from cluster.balancing.departure import Departure
    from cluster.client.admin import Admin
    from cluster.client.topic_requests import ClusterFacts
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-remove-broker"
_POLL_S: Final = 0.1
_REPORT_S: Final = 1.0
_STALE_S: Final = 3.0
"""How long brokers may tell of replicas that are gone already."""
_AT_ONCE: Final = 1_000
"""Partitions of one request."""
_NAMED: Final = 3
"""Topics that a message names."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `remove-broker` and its options to `subparsers`."""
    parser = add_command(subparsers, "remove-broker", "remove-broker 3", "remove-broker 3 --force")
    parser.add_argument("id", type=not_negative, metavar="ID", help="the broker's id")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also if partitions keep fewer replicas, or cannot leave it; for the latter its log"
        " directories are kept, so that `add-broker --broker-id ID` brings them back",
    )
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Remove the broker. Returns the exit status."""
    files = data_dir(args)
    state = running_state(args) if stated_servers(args) is None else None
    ours = None if state is None else _broker_of(state, args.id)
    if ours is not None and state is not None and len(state["brokers"]) == 1:
        raise UserError(
            f"broker {args.id} is the only one: use `{launcher(files.path)} stop --purge` to remove"
            " the cluster with its data"
        )
    try:
        with admin_of(args, _CLIENT_ID) as admin:
            is_alive = _check_known(admin.facts(), args.id, state)
            left_behind = _move_away(admin, args.id, has_force=args.force)
    except Refused as refused:
        raise UserError(f"{refused}{right_hint(refused.code, args)}") from None
    if ours is None and is_alive:
        print(
            f"Broker {args.id} has no replicas any more; stop it where it was started, and run"
            " this again to forget it."
        )
        return 0
    if ours is None:
        if not left_behind and not _unregister(args):
            return 1
        print(f"Broker {args.id} is forgotten.")
        return 0
    remove_broker(files, args.id)
    directories = [Path(path) for path in ours["log_dirs"]]
    where = ", ".join(shown(path) for path in directories)
    to_have_it_back = f"To have it back: {launcher(files.path)} add-broker --broker-id {args.id}"
    if left_behind:
        print(
            f"Broker {args.id} is stopped and forgotten. Its log directories stay, with the"
            f" partitions that could not move: {where}.\n{to_have_it_back}"
        )
        return 0
    if not _unregister(args):
        # Such as a topic that was created on it after everything had moved away.
        print(
            f"Broker {args.id} is stopped. Its log directories stay, since it may have replicas:"
            f" {where}.\n{to_have_it_back}"
        )
        return 1
    cluster_id = None if state is None else state["cluster_id"]
    try:
        left = remove_directories({args.id: directories}, cluster_id, files.path)
    except OSError as problem:
        raise UserError(
            f"broker {args.id} is stopped and forgotten, but its log directories could not be"
            f" removed: {problem.filename}: {problem.strerror}"
        ) from None
    kept = {each.path for each in left}
    removed = [shown(path) for path in directories if path.resolve() not in kept]
    told = f"; removed {', '.join(removed)}" if removed else ""
    print(f"Broker {args.id} is stopped and forgotten{told}.")
    for line in left_lines(left):
        print(line)
    return 0


def _broker_of(state: Mapping[str, Any], broker: int) -> dict[str, Any] | None:
    brokers: list[dict[str, Any]] = state["brokers"]
    return next((each for each in brokers if each["id"] == broker), None)


def _unregister(args: argparse.Namespace) -> bool:
    """Have the registry forget the broker, if it knows it; False, with a warning, if it is not
    certain that no replica is assigned to the broker.
    """
    from cluster.client.cluster_requests import unregister_broker

    try:
        with admin_of(args, _CLIENT_ID) as admin:
            admin.any_broker(partial(unregister_broker, broker=args.id))
    except Refused as refused:
        if refused.code is not ErrorCode.broker_id_not_registered:
            print(
                f"warning: the registry still knows broker {args.id}: {reason_of(refused)}",
                file=sys.stderr,
            )
            return False
    return True


def _check_known(facts: "ClusterFacts", broker: int, state: Mapping[str, Any] | None) -> bool:
    """Whether the broker is alive. Raises UserError if no broker has that id, here or elsewhere,
    and no replica is assigned to it.
    """
    ours = set() if state is None else {each["id"] for each in state["brokers"]}
    known = {*ours, *facts.brokers}
    if broker not in known and not any(
        broker in each.replicas for topic in facts.topics for each in topic.partitions
    ):
        names = ", ".join(map(str, sorted(known)))
        raise UserError(f"there is no broker {broker}: choose one of {names}")
    return broker in facts.brokers


def _move_away(admin: "Admin", broker: int, *, has_force: bool) -> bool:
    """Have no replica on the broker. Returns whether some that are bound to it were left.

    Raises UserError, before anything is changed, where records or replicas would be lost and there
    is no force, and Refused.
    """
    while True:  # topics may be created meanwhile
        departure = _plan(admin, broker)
        if not has_force and (departure.shorter or departure.bound):
            raise UserError(_losses(departure, broker))
        bound = frozenset(Place(*each) for each in departure.bound)
        targets = {**departure.moves, **departure.shorter}
        _begin(admin, {Place(*each): replicas for each, replicas in targets.items()})
        if _wait(admin, broker, bound, len(targets)):
            return bool(bound)


def _begin(admin: "Admin", targets: Mapping[Place, tuple[int, ...]]) -> None:
    from cluster.client.reassignment_requests import alter_reassignments

    places = list(targets)
    for first in range(0, len(places), _AT_ONCE):
        asked = {place: targets[place] for place in places[first : first + _AT_ONCE]}
        answers = admin.controller(partial(alter_reassignments, targets=asked))
        for place, refused in answers.items():
            if refused is not None:
                detail = f"{place.topic}-{place.partition} cannot move: {reason_of(refused)}"
                raise Refused(refused.code, detail)


def _wait(admin: "Admin", broker: int, bound: Collection[Place], total: int) -> bool:
    """Report progress until only `bound` partitions are on the broker; `total` begin to move.

    Returns False if others are on it which do not move away: they have to be planned.
    """
    from cluster.client.reassignment_requests import list_reassignments

    reported, moved = float("-inf"), time.monotonic()
    while True:
        moving = admin.controller(list_reassignments)
        facts = admin.facts()
        left = {place for place in _places_on(facts, broker) if place not in bound}
        total = max(total, len(left))
        if not left:
            if total:
                print(f"{_count(total)} moved away from broker {broker}.", flush=True)
            return True
        now = time.monotonic()
        if all(place in moving and broker not in moving[place].target for place in left):
            moved = now
        elif now - moved > _STALE_S:
            return False
        if now - reported >= _REPORT_S:
            reported = now
            down = _brokers_down(facts, left)
            waits = f"; waiting for {down}" if down else ""
            print(f"Moving: {len(left)} of {_count(total)} left{waits}", flush=True)
        time.sleep(_POLL_S)


def _brokers_down(facts: "ClusterFacts", places: Collection[Place]) -> str:
    """The brokers that reassignments wait for, as text."""
    replicas = {
        broker
        for topic in facts.topics
        for each in topic.partitions
        if (topic.name, each.number) in places
        for broker in each.replicas
    }
    down = sorted(replicas - facts.brokers.keys())
    names = ", ".join(map(str, down))
    return f"broker{'s' if len(down) > 1 else ''} {names}, down" if down else ""


def _plan(admin: "Admin", broker: int) -> "Departure":
    from cluster.balancing.departure import plan_departure
    from cluster.balancing.replica_layout import Layout
    from cluster.client.reassignment_requests import list_reassignments

    moving = admin.controller(list_reassignments)
    facts = admin.facts()
    replicas, in_sync, fixed = {}, {}, set()
    for topic in facts.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.number)
            ongoing = moving.get(Place(*partition))
            now = each.replicas if ongoing is None else ongoing.target
            replicas[partition] = tuple(map(BrokerId, now))
            in_sync[partition] = tuple(map(BrokerId, each.isr))
            if each.leader is None:
                fixed.add(partition)
    racks = {BrokerId(each): rack for each, rack in facts.racks.items()}
    layout = Layout(racks, replicas, _sizes(admin, broker), frozenset(fixed))
    return plan_departure(BrokerId(broker), layout, in_sync)


def _sizes(admin: "Admin", broker: int) -> dict[TopicPartition, int]:
    """The bytes of each partition on a broker; none if it does not tell."""
    from cluster.client.log_dir_requests import describe_log_dirs

    try:
        directories = admin.broker(broker, describe_log_dirs)
    except (Refused, UserError):  # sizes only make the plan better
        return {}
    return {
        TopicPartition(each.topic, each.partition): each.size_bytes
        for directory in directories
        for each in directory.replicas
    }


def _places_on(facts: "ClusterFacts", broker: int) -> list[Place]:
    return [
        Place(topic.name, each.number)
        for topic in facts.topics
        for each in topic.partitions
        if broker in each.replicas
    ]


def _losses(departure: "Departure", broker: int) -> str:
    """What a removal would cost, and how to have it all the same."""
    costs = []
    if departure.shorter:
        left = max(map(len, departure.shorter.values()))
        costs.append(
            f"{_count(len(departure.shorter))} ({_topics(departure.shorter)}) would have fewer"
            f" replicas, {left} at most, since there is no other broker for them"
        )
    if departure.bound:
        costs.append(
            f"{_count(len(departure.bound))} ({_topics(departure.bound)}) would be lost or without"
            " leader, since no other live broker has their records"
        )
    return f"broker {broker} stays: {'; '.join(costs)}. --force removes it all the same"


def _topics(partitions: Iterable[TopicPartition]) -> str:
    names = sorted({each.topic for each in partitions})
    more = ", ..." if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _count(number: int) -> str:
    return f"{number} partition{'' if number == 1 else 's'}"
