"""Carries out, verifies, cancels and lists reassignments, in the words of Kafka's tool."""

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cluster.balancing.replication_throttles import (
    clear_throttles,
    moves_of,
    set_log_dir_throttle,
    set_throttle,
)
from cluster.client.admin import Admin
from cluster.client.reassignment_requests import (
    OngoingReassignment,
    alter_reassignments,
    list_reassignments,
)
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import ClusterFacts, Place
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.tools.partitions.assignment_file import (
    Assignment,
    assignment_text,
    listed,
    named,
    still_throttled,
)
from cluster.tools.partitions.log_dir_moves import begin_moves, move_states


class Terms(NamedTuple):
    """How an assignment is carried out."""

    is_additional: bool
    """Whether other reassignments may be in progress."""
    throttle_bytes: int | None
    """Per second, between brokers."""
    log_dir_throttle_bytes: int | None
    """Per second, between log directories."""
    may_change_factor: bool
    timeout_ms: int
    """For the moves between log directories to begin."""


def execute(admin: Admin, wanted: Assignment, terms: Terms) -> None:
    """Begin the reassignment, and print how to return. Raises UserError before anything changes,
    and where the controller refuses a partition.
    """
    ongoing = ongoing_reassignments(admin)
    if ongoing and not terms.is_additional:
        raise UserError(
            "Cannot execute because there is an existing partition assignment.  Use --additional to"
            " override this and create a new partition assignment in addition to the existing one."
            " The --additional flag can also be used to change the throttle by resubmitting the"
            " current reassignment."
        )
    present = _present(admin.facts(), wanted)
    print(
        f"Current partition replica assignment\n\n{assignment_text(present)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    if terms.throttle_bytes is not None or terms.log_dir_throttle_bytes is not None:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to"
            " ensure the throttle is removed."
        )
    if terms.throttle_bytes is not None:
        moves = moves_of(ongoing, wanted.replicas, present)
        set_throttle(admin, moves, terms.throttle_bytes)
        print(f"The inter-broker throttle limit was set to {terms.throttle_bytes} B/s")
    if terms.log_dir_throttle_bytes is not None:
        brokers = {replica.broker for replica in wanted.directories}
        set_log_dir_throttle(admin, brokers, terms.log_dir_throttle_bytes)
        print(f"The replica-alter-dir throttle limit was set to {terms.log_dir_throttle_bytes} B/s")
    refusals = _altered(admin, wanted.replicas, may_change_factor=terms.may_change_factor)
    if refusals:
        _print_refusals("Error reassigning partition(s):", refusals)
        if len(refusals) == len(wanted.replicas) and not ongoing:  # so nothing is throttled
            _drop_throttles(admin, wanted, terms)
        raise UserError(f"{len(refusals)} partition(s) could not be reassigned")
    plural = "" if len(wanted.replicas) == 1 else "s"
    print(f"Successfully started partition reassignment{plural} for {_names(wanted.replicas)}")
    if wanted.directories:
        begin_moves(admin, wanted.directories, terms.timeout_ms)


def verify(admin: Admin, wanted: Assignment, *, keeps_throttles: bool) -> None:
    """Print how far the assignment is carried out; remove throttles when nothing moves any more."""
    ongoing = ongoing_reassignments(admin)
    facts = admin.facts()
    present = facts.replicas()
    print("Status of partition reassignment:")
    for place, target in sorted(wanted.replicas.items()):
        if place in ongoing:
            print(f"Reassignment of partition {named(place)} is still in progress.")
        elif present.get(place) == target:
            print(f"Reassignment of partition {named(place)} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {named(place)}, but replica set is"
                f" {listed(present.get(place, ()))} rather than {listed(target)}."
            )
    states = move_states(admin, wanted.directories)
    print("\n".join(state.line(replica) for replica, state in states.items()))
    is_over = not ongoing and all(state.is_over for state in states.values())
    if is_over and not keeps_throttles:
        _clear_throttles(admin, facts, wanted)


def cancel(admin: Admin, wanted: Assignment, *, keeps_throttles: bool, timeout_ms: int) -> None:
    """End the reassignments of these partitions, and return replicas to their log directories.

    Raises UserError where the controller refuses.
    """
    ongoing = ongoing_reassignments(admin)
    active = [place for place in wanted.replicas if place in ongoing]
    if active:
        refusals = _altered(admin, dict.fromkeys(active), may_change_factor=True)
        if refusals:
            plural = "" if len(refusals) == 1 else "s"
            _print_refusals(f"Error cancelling partition reassignment{plural} for:", refusals)
            raise UserError(f"{len(refusals)} reassignment(s) could not be canceled")
        plural = "" if len(active) == 1 else "s"
        print(f"Successfully cancelled partition reassignment{plural} for: {_names(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    back = {
        replica: state.current
        for replica, state in move_states(admin, wanted.directories).items()
        if state.current is not None and state.future is not None
    }
    if back:
        begin_moves(admin, back, timeout_ms)
    else:  # Kafka's tool ends this line nowhere
        print("None of the specified partition moves are active.", end="")
    if not keeps_throttles:
        _clear_throttles(admin, admin.facts(), wanted)
    elif not back:
        print()


def print_ongoing(admin: Admin) -> None:
    """List all reassignments that are in progress."""
    ongoing = ongoing_reassignments(admin)
    if not ongoing:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for place, each in sorted(ongoing.items()):
        adding = f" adding: {listed(each.adding)}." if each.adding else ""
        removing = f" removing: {listed(each.removing)}." if each.removing else ""
        print(f"{named(place)}: replicas: {listed(each.replicas)}.{adding}{removing}")


def ongoing_reassignments(admin: Admin) -> dict[Place, OngoingReassignment]:
    """All that are in progress. Raises Refused."""
    return admin.controller(list_reassignments)


def _present(facts: ClusterFacts, wanted: Assignment) -> dict[Place, tuple[int, ...]]:
    """The replicas of the partitions that are to move. Raises UserError."""
    known = facts.replicas()
    missing = [named(place) for place in sorted(wanted.replicas) if place not in known]
    if missing:
        raise UserError(f"Unable to find partition: {', '.join(missing)}")
    asked = {broker for replicas in wanted.replicas.values() for broker in replicas}
    unknown = sorted(asked - facts.brokers.keys())
    if unknown:
        raise UserError(
            f"Unknown broker id {unknown[0]}; live brokers are {listed(sorted(facts.brokers))}"
        )
    return {place: known[place] for place in wanted.replicas}


def _altered(
    admin: Admin, targets: Mapping[Place, Sequence[int] | None], *, may_change_factor: bool
) -> dict[Place, Refused]:
    """Begin or cancel (None) reassignments. Returns the refusals."""
    ask = partial(alter_reassignments, targets=targets, may_change_factor=may_change_factor)
    answers = admin.controller(ask)
    return {place: refused for place, refused in answers.items() if refused is not None}


def _clear_throttles(admin: Admin, facts: ClusterFacts, wanted: Assignment) -> None:
    """Remove all throttles, as it is not known which brokers the partitions were copied from."""
    named_brokers = {broker for replicas in wanted.replicas.values() for broker in replicas}
    brokers = sorted(named_brokers | facts.brokers.keys())
    plural = "" if len(brokers) == 1 else "s"
    print(f"Clearing broker-level throttles on broker{plural} {listed(brokers)}")
    topics = sorted({place.topic for place in wanted.replicas})
    known = {topic.name for topic in facts.topics}
    missed = clear_throttles(admin, brokers, ())
    plural = "" if len(topics) == 1 else "s"
    print(f"Clearing topic-level throttles on topic{plural} {','.join(map(one_line, topics))}")
    clear_throttles(admin, (), known.intersection(topics))
    if missed:
        print(f"warning: {still_throttled(missed)}", file=sys.stderr)


def _drop_throttles(admin: Admin, wanted: Assignment, terms: Terms) -> None:
    """Remove the throttles of an assignment that was refused as a whole."""
    if terms.throttle_bytes is not None or terms.log_dir_throttle_bytes is not None:
        topics = {place.topic for place in wanted.replicas}
        clear_throttles(admin, admin.facts().brokers, topics)


def _print_refusals(heading: str, refusals: Mapping[Place, Refused]) -> None:
    print(heading)
    for place, refused in sorted(refusals.items()):
        print(f"{named(place)}: {one_line(reason_of(refused))}")


def _names(places: Collection[Place]) -> str:
    return ",".join(named(place) for place in sorted(places))
