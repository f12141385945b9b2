"""What a leader's quota holds back from its followers.

As in Kafka: while the quota is exceeded, records of throttled partitions are left out of answers to
followers that are not in sync. All records of throttled partitions count, whoever gets them. Kafka
also holds a follower back that is about to join the ISR; here it is not, since commits wait for it.
"""

from collections.abc import Callable

from cluster.brokers.replication.follower_sessions import Followed, FollowerSession
from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.brokers.replication.replica_throttle import ReplicaThrottle


class HeldFollowers:
    """Held partitions are in `FollowerSession.held`, and may be told offsets without records.

    One that is told so stays there: it keeps its place among those that wait.
    """

    def __init__(
        self,
        throttle: ReplicaThrottle[FollowerSession],
        answer: Callable[[FollowerSession], None],
    ) -> None:
        """`answer` sends to a session what is ready."""
        self._throttle = throttle
        self._answer = answer

    def hold(self, followed: Followed, leader: LeaderReplica) -> bool:
        """Whether records have to wait for their turn."""
        session = followed.session
        if not self._throttle.limits(followed.id) or leader.may_be_in_sync(session.follower):
            return False
        followed.most_bytes = 0
        session.held[followed] = None
        self._throttle.wait(session)
        return True

    def let_go(self, followed: Followed) -> None:
        """Hold a partition no longer; what was reserved for it is free again."""
        held = followed.session.held
        if followed in held:
            del held[followed]
            followed.most_bytes = followed.asked_bytes
        if followed.grant is not None:
            self.on_sent(followed, 0)

    def on_sent(self, followed: Followed, size_bytes: int) -> None:
        """Count the bytes of an answer."""
        if followed.grant is not None:
            self._throttle.settle(followed.grant, size_bytes)
            followed.grant = None
        else:
            self._throttle.record(followed.id, size_bytes)

    def serve_waiting(self) -> None:
        """A session that waits can be answered now."""
        self._throttle.serve()

    def serve(self, session: FollowerSession) -> None:
        """Answer a session with one partition that it waits for, if it is parked."""
        followed = next((each for each in session.held if not each.is_told), None)
        if session.parked_until_ms is not None and followed is not None:
            grant = self._throttle.take(session)
            if grant is not None:
                del session.held[followed]
                followed.grant = grant
                followed.most_bytes = min(followed.asked_bytes, grant.most_bytes)
                session.ready[followed] = None
                self._answer(session)
        if session.held:
            self._throttle.wait(session)

    def recheck(self, session: FollowerSession) -> None:
        """Let go what is not limited any more, and answer with it."""
        for followed in [each for each in session.held if not self._throttle.limits(each.id)]:
            self.let_go(followed)
            if not followed.is_told:
                session.ready[followed] = None
        if session.ready and session.parked_until_ms is not None:
            self._answer(session)
