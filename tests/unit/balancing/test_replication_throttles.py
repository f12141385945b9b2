"""Which replicas and brokers are throttled while partitions move."""

from cluster.balancing.replication_throttles import moves_of, throttled_replicas
from cluster.client.reassignment_requests import OngoingReassignment
from cluster.client.topic_requests import Place

T0, T10, T9 = Place("t", 0), Place("t", 10), Place("t", 9)


def test_replicas_are_throttled_where_records_are_read_and_where_they_are_written() -> None:
    moves = moves_of({}, {T10: (2, 3), T9: (1, 0)}, {T10: (1, 2), T9: (0, 1)})
    assert throttled_replicas(moves) == {
        "t": {
            "leader.replication.throttled.replicas": "10:1,10:2,9:0,9:1",
            "follower.replication.throttled.replicas": "10:3",
        }
    }


def test_moves_in_progress_stay_throttled_and_keep_their_sources() -> None:
    ongoing = {
        T0: OngoingReassignment((1, 2, 0), adding=(1,), removing=(0,)),
        T9: OngoingReassignment((3, 0), adding=(3,), removing=(0,)),
    }
    moves = moves_of(ongoing, {T9: (4,)}, {T9: (3, 0)})
    assert moves[T0] == ({0, 2}, {1})
    assert moves[T9] == ({0}, {4})
