"""Throttles of moving partitions, set and removed as kafka-reassign-partitions does (KIP-73)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.client.admin import Admin
from cluster.client.config_requests import alter_configs
from cluster.client.reassignment_requests import OngoingReassignment
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import ClusterFacts, Place, own_configs
from cluster.model.errors import ErrorCode, Refused, UserError

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """The brokers that a partition is copied from, and those to which it is copied."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves_of(
    ongoing: Mapping[Place, OngoingReassignment],
    proposed: Mapping[Place, Sequence[int]],
    present: Mapping[Place, Sequence[int]],
) -> dict[Place, Move]:
    """The moves that go on, and those that are proposed of partitions with `present` replicas."""
    moves = {
        place: Move(frozenset(each.replicas).difference(each.adding), frozenset(each.adding))
        for place, each in ongoing.items()
    }
    for place, replicas in proposed.items():
        sources = moves[place].sources if place in moves else frozenset(present[place])
        moves[place] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[Place, Move]) -> dict[str, dict[str, str]]:
    """The settings of each topic that name its replicas to throttle, as Kafka's tool writes them.

    Kafka sorts the pairs as texts.
    """
    pairs: dict[str, tuple[set[str], set[str]]] = {}
    for (topic, number), move in moves.items():
        leaders, followers = pairs.setdefault(topic, (set(), set()))
        leaders.update(f"{number}:{broker}" for broker in move.sources)
        followers.update(f"{number}:{broker}" for broker in move.destinations)
    return {
        topic: {
            _LEADER_REPLICAS: ",".join(sorted(leaders)),
            _FOLLOWER_REPLICAS: ",".join(sorted(followers)),
        }
        for topic, (leaders, followers) in pairs.items()
    }


def set_throttle(admin: Admin, moves: Mapping[Place, Move], bytes_per_second: int) -> None:
    """Throttle the replicas that move, on each broker that takes part. Raises Refused."""
    for topic, settings in sorted(throttled_replicas(moves).items()):
        _alter(admin, "topics", topic, settings)
    involved = {broker for move in moves.values() for broker in move.sources | move.destinations}
    live = admin.facts().brokers.keys()
    for broker in sorted(involved & live):  # one that is dead copies nothing
        _alter(admin, "brokers", str(broker), dict.fromkeys(_RATES, str(bytes_per_second)))


def set_log_dir_throttle(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    """Throttle moves between the log directories of brokers. Raises Refused."""
    for broker in sorted(set(brokers)):
        _alter(admin, "brokers", str(broker), {_LOG_DIRS_RATE: str(bytes_per_second)})


def throttled_topics(admin: Admin, facts: ClusterFacts) -> list[str]:
    """The topics that name replicas to throttle. Raises UserError."""
    names = list(facts.partition_counts())
    found = admin.any_broker(lambda client: own_configs(client, names))
    return [
        topic
        for topic, settings in found.items()
        if settings.keys() & {_LEADER_REPLICAS, _FOLLOWER_REPLICAS}
    ]


def clear_throttles(admin: Admin, brokers: Iterable[int], topics: Iterable[str]) -> list[int]:
    """Remove what the functions above set, from brokers and from topics that exist.

    Returns the brokers that were not reached, which keep their throttles. Raises Refused.
    """
    for topic in sorted(topics):
        _alter(admin, "topics", topic, deleted=(_LEADER_REPLICAS, _FOLLOWER_REPLICAS))
    return [broker for broker in sorted(brokers) if not _clear_broker(admin, broker)]


def _clear_broker(admin: Admin, broker: int) -> bool:
    """Remove the rates of one broker; False if it is not reached. Raises Refused."""
    for _ in range(2):  # an open connection is broken if the broker has restarted
        try:
            _alter(admin, "brokers", str(broker), deleted=(*_RATES, _LOG_DIRS_RATE))
        except UserError:
            continue
        except Refused as refused:
            if refused.code is not ErrorCode.broker_not_available:
                raise
            return False
        return True
    return False


def _alter(
    admin: Admin,
    entity_type: str,
    name: str,
    settings: Mapping[str, str] | None = None,
    deleted: Collection[str] = (),
) -> None:
    def ask(client: SocketClient) -> None:
        alter_configs(client, entity_type, name, settings or {}, deleted)

    if entity_type == "brokers":  # only it changes its own settings
        admin.broker(int(name), ask)
    else:
        admin.any_broker(ask)
