"""Moves of replicas between log directories that an assignment asks for: how they begin and stand.

The words are those of kafka-reassign-partitions.
"""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from cluster.client.admin import Admin
from cluster.client.log_dir_requests import alter_replica_log_dirs, describe_log_dirs
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.tools.partitions.assignment_file import Replica, named

_POLL_S: Final = 0.1


class MoveState(NamedTuple):
    """Where a replica is, where it is being moved, and where it should be."""

    current: str | None
    """None: in no log directory that is online."""
    future: str | None
    wanted: str

    @property
    def is_over(self) -> bool:
        """Whether it is in a directory and not on its way to another one."""
        return self.current is not None and self.future is None

    def line(self, replica: Replica) -> str:
        """What Kafka's tool says of it."""
        where = f"Partition {named(replica.place)} on broker {replica.broker}"
        if self.current is None:
            return (
                f"Partition {named(replica.place)} is not found in any live log dir on broker"
                f" {replica.broker}. There is likely an offline log directory on the broker."
            )
        if self.future == self.wanted:
            return f"Reassignment of replica {one_line(str(replica))} is still in progress."
        if self.future is not None:
            return f"{where} is being moved to log dir {self.future} instead of {self.wanted}."
        if self.current != self.wanted:
            return f"{where} is not being moved from log dir {self.current} to {self.wanted}."
        return f"Reassignment of replica {one_line(str(replica))} completed successfully."


def move_states(admin: Admin, wanted: Mapping[Replica, str]) -> dict[Replica, MoveState]:
    """The state of each replica that should be in a directory. Raises Refused."""
    current: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    live = admin.facts().brokers.keys() if wanted else ()
    for broker, replicas in _by_broker(wanted).items():
        if broker not in live:
            continue
        topics = {replica.topic for replica in replicas}
        for directory in admin.broker(broker, partial(describe_log_dirs, topics=topics)):
            for each in directory.replicas:
                found = future if each.is_future else current
                found[Replica(broker, each.topic, each.partition)] = directory.path
    return {
        replica: MoveState(current.get(replica), future.get(replica), path)
        for replica, path in sorted(wanted.items())
    }


def begin_moves(admin: Admin, wanted: Mapping[Replica, str], timeout_ms: int) -> None:
    """Have brokers move replicas, and print which moves have begun.

    A replica that its broker does not have yet is asked for again until the timeout. Raises
    UserError.
    """
    waiting = dict(wanted)
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        for replica in sorted(_begun(admin, waiting)):
            print(
                f"Successfully started moving log directory to {waiting.pop(replica)} for replica"
                f" {named(replica.place)} with broker {replica.broker} "
            )
        if not waiting:
            return
        if time.monotonic() >= deadline:
            plural = "" if len(waiting) == 1 else "s"
            names = ",".join(one_line(str(replica)) for replica in sorted(waiting))
            raise UserError(
                f"Timed out before log directory move{plural} could be started for: {names}"
            )
        time.sleep(_POLL_S)


def _begun(admin: Admin, wanted: Mapping[Replica, str]) -> list[Replica]:
    """The replicas whose brokers have accepted the move. Raises UserError where one refuses it."""
    begun = []
    for broker, replicas in _by_broker(wanted).items():
        paths = {replica.place: wanted[replica] for replica in replicas}
        try:
            codes = admin.broker(broker, partial(alter_replica_log_dirs, paths=paths))
        except (Refused, UserError):  # the broker is not there: it may come back
            codes = dict.fromkeys(paths, ErrorCode.broker_not_available)
        for place, code in codes.items():
            replica = Replica(broker, *place)
            if code is ErrorCode.none:
                begun.append(replica)
            elif code not in (ErrorCode.replica_not_available, ErrorCode.broker_not_available):
                raise UserError(
                    f"Failed to alter dir for {one_line(str(replica))}:"
                    f" {code.name.replace('_', ' ')} ({wanted[replica]})"
                )
    return begun


def _by_broker(replicas: Iterable[Replica]) -> dict[int, list[Replica]]:
    found: dict[int, list[Replica]] = {}
    for replica in sorted(replicas):
        found.setdefault(replica.broker, []).append(replica)
    return found
