"""How a plan is carried out: some partitions at a time, and what is said of those that fail."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from cluster.balancing import carrying_out
from cluster.balancing.carrying_out import Outcome, Progress, carry_out
from cluster.balancing.replica_layout import Moves
from cluster.client.admin import Admin
from cluster.client.topic_requests import ClusterFacts, PartitionFacts, Place, TopicFacts
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.ids import BrokerId, TopicPartition
from tests.unit.balancing.layouts import a_layout

LAYOUT = a_layout([None] * 3, [[0, 1], [0, 1], [0, 1], [0, 1]], [10] * 4)


def target(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def t(number: int) -> TopicPartition:
    return TopicPartition("t0", number)


class AskedAdmin:
    """A cluster in which a reassignment is completed when it has been listed once."""

    def __init__(self) -> None:
        self.replicas: dict[Place, tuple[int, ...]] = {
            Place(*each): held for each, held in LAYOUT.replicas.items()
        }
        self.moving: dict[Place, tuple[int, ...]] = {}
        self.most_moving = 0
        self.refused: dict[Place, Refused] = {}
        self.lost: set[Place] = set()
        self.elected: list[Place] = []
        self.settings: list[tuple[str, str, Mapping[str, str], tuple[str, ...]]] = []
        self.dead: set[int] = set()

    def controller(self, ask: Callable[..., Any]) -> Any:
        return ask(self)

    any_broker = controller

    def broker(self, number: int, ask: Callable[..., Any]) -> Any:
        if number in self.dead:
            raise Refused(ErrorCode.broker_not_available)
        return ask(self)

    def facts(self) -> ClusterFacts:
        partitions = tuple(
            PartitionFacts(place.partition, held[0], tuple(held), tuple(held))
            for place, held in sorted(self.replicas.items())
        )
        live = dict.fromkeys({0, 1, 2} - self.dead, ("host", 1))
        return ClusterFacts(0, (TopicFacts("t0", False, partitions),), live)

    def alter(
        self, targets: Mapping[Place, Sequence[int]], *, may_change_factor: bool
    ) -> dict[Place, Refused | None]:
        assert not may_change_factor
        answers = {place: self.refused.get(place) for place in targets}
        self.moving |= {
            place: tuple(held) for place, held in targets.items() if answers[place] is None
        }
        self.most_moving = max(self.most_moving, len(self.moving))
        return answers

    def listed(self) -> dict[Place, object]:
        now = dict(self.moving)
        self.moving.clear()
        for place, held in now.items():
            if place not in self.lost:
                self.replicas[place] = held
        return dict.fromkeys(now)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> AskedAdmin:
    """The requests go to a cluster that answers them, and nobody waits."""
    monkeypatch.setattr(
        carrying_out, "alter_reassignments", lambda client, targets, **k: client.alter(targets, **k)
    )
    monkeypatch.setattr(carrying_out, "list_reassignments", lambda client: client.listed())
    monkeypatch.setattr(
        carrying_out,
        "elect_leaders",
        lambda client, election_type, places: client.elected.extend(places),
    )
    monkeypatch.setattr(carrying_out, "_POLL_S", 0)
    monkeypatch.setattr(carrying_out, "_STALE_S", 0)
    throttles = "cluster.balancing.replication_throttles"
    monkeypatch.setattr(
        f"{throttles}.alter_configs",
        lambda client, kind, name, added, deleted: client.settings.append(
            (kind, name, dict(added), tuple(deleted))
        ),
    )
    monkeypatch.setattr(
        f"{throttles}.own_configs",
        lambda client, names: {
            name: {"leader.replication.throttled.replicas": ""} for name in names
        },
    )
    return AskedAdmin()


def carried_out(
    admin: AskedAdmin, moves: Moves, at_once: int = 2, throttle: int | None = None
) -> tuple[Outcome, list[Progress]]:
    seen: list[Progress] = []
    outcome = carry_out(
        cast(Admin, admin),
        LAYOUT,
        moves,
        at_once=at_once,
        throttle_bytes=throttle,
        report=seen.append,
    )
    return outcome, seen


def test_a_bounded_number_of_partitions_moves_at_a_time(admin: AskedAdmin) -> None:
    moves = {t(number): target(2, 1) for number in range(4)}
    outcome, seen = carried_out(admin, moves)
    assert outcome == (4, {}, [])
    assert admin.most_moving == 2
    assert admin.replicas == {Place(*each): held for each, held in moves.items()}
    assert sorted(admin.elected) == sorted(admin.replicas)
    assert seen[0].left_bytes == LAYOUT.copied_bytes(moves)
    assert seen[-1] == (4, 0, 4, 0, ())
    assert admin.settings == []


def test_reordered_partitions_are_not_bounded_and_need_no_throttle(admin: AskedAdmin) -> None:
    carried_out(admin, {t(number): target(1, 0) for number in range(4)}, at_once=1, throttle=9)
    assert admin.most_moving == 4
    assert not any(added for _, _, added, _ in admin.settings)


def test_partitions_that_cannot_move_are_named_and_the_others_move(admin: AskedAdmin) -> None:
    admin.refused[Place("t0", 0)] = Refused(ErrorCode.invalid_replica_assignment, "no such broker")
    admin.lost.add(Place("t0", 1))
    admin.lost.add(Place("t0", 2))
    del admin.replicas[Place("t0", 2)]
    outcome, seen = carried_out(admin, {t(number): target(2, 1) for number in range(4)})
    assert outcome.completed == 1
    assert outcome.failed == {
        t(0): "no such broker",
        t(1): "its reassignment was canceled or replaced",
        t(2): "it was deleted",
    }
    assert seen[-1] == (4, 0, 4, 0, ())
    assert admin.elected == [Place("t0", 3)]


def test_a_throttle_is_set_before_and_removed_after_the_moves(admin: AskedAdmin) -> None:
    admin.dead.add(1)
    outcome, _ = carried_out(admin, {t(0): target(0, 2)}, throttle=500)
    rates = {
        "leader.replication.throttled.rate": "500",
        "follower.replication.throttled.rate": "500",
    }
    assert [change[:3] for change in admin.settings[:3]] == [
        (
            "topics",
            "t0",
            {
                "leader.replication.throttled.replicas": "0:0,0:1",
                "follower.replication.throttled.replicas": "0:2",
            },
        ),
        ("brokers", "0", rates),
        ("brokers", "2", rates),
    ]
    removed = [(kind, name) for kind, name, added, _ in admin.settings[3:] if not added]
    assert removed == [("topics", "t0"), ("brokers", "0"), ("brokers", "2")]
    assert outcome.still_throttled == [1]


def test_a_lost_connection_is_made_again_once(
    admin: AskedAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[object] = [UserError("lost"), {}, UserError("lost"), UserError("still lost")]

    def listed(_client: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, UserError):
            raise answer
        return answer

    monkeypatch.setattr(carrying_out, "list_reassignments", listed)
    moves = {t(0): target(0, 2)}
    outcome, _ = carried_out(admin, moves)
    assert outcome.failed.keys() == moves.keys()  # the list was empty, and it had not moved
    with pytest.raises(UserError, match="still lost"):
        carried_out(admin, moves)
