"""Who waits for a throttle's bytes, and whose turn it is."""

from cluster.brokers.replication.replica_throttle import ReplicaThrottle
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import TopicPartition
from cluster.quotas.replication_quota import ReplicationQuota
from cluster.quotas.sampled_rate import WindowOptions

RATE = 100_000


class Turns:
    """Waiters that take what they get when it is their turn, in batches of 1,000 bytes."""

    def __init__(self) -> None:
        self.now_ms = MonotonicMs(0)
        self.timers: list[tuple[int, Turns.Timer]] = []
        quota = ReplicationQuota(WindowOptions(), self.now_ms)
        self.throttle: ReplicaThrottle[str] = ReplicaThrottle(
            quota, lambda: self.now_ms, self.call_at
        )
        self.throttle.set_replicas("t", None)
        self.throttle.set_limit(RATE)
        self.throttle.connect(self.serve, lambda: None)
        self.received: dict[str, int] = {}
        self.not_ready: set[str] = set()
        self.is_ready_again = False
        """Somebody has used their bytes: they report that a millisecond later."""

    class Timer:
        def __init__(self, call) -> None:
            self.call = call

        def cancel(self) -> None:
            self.call = None

    def call_at(self, at_ms, call):
        self.timers.append((at_ms, Turns.Timer(call)))
        return self.timers[-1][1]

    def serve(self, waiter: str) -> None:
        grant = None if waiter in self.not_ready else self.throttle.take(waiter)
        if grant is not None:
            used = max(1, grant.most_bytes // 1_000) * 1_000
            self.received[waiter] = self.received.get(waiter, 0) + used
            self.throttle.settle(grant, used)
            self.is_ready_again = True
        self.throttle.wait(waiter)

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms):
            self.now_ms = MonotonicMs(self.now_ms + 1)
            due = [timer for at_ms, timer in self.timers if at_ms <= self.now_ms]
            self.timers = [each for each in self.timers if each[0] > self.now_ms]
            for timer in due:
                if timer.call is not None:
                    timer.call()
            if self.is_ready_again:
                self.is_ready_again = False
                self.throttle.serve()


def test_waiters_share_the_rate_equally():
    turns = Turns()
    for waiter in "abc":
        turns.throttle.wait(waiter)
    turns.run(3_000)
    assert 0.97 * 3 * RATE <= sum(turns.received.values()) <= 1.03 * 3 * RATE
    assert max(turns.received.values()) <= 1.1 * min(turns.received.values())
    assert len(turns.timers) <= 1


def test_one_that_is_not_ready_keeps_nobody_waiting_and_costs_no_timers():
    turns = Turns()
    turns.not_ready.add("a")
    for waiter in "ab":
        turns.throttle.wait(waiter)
    turns.run(1_000)
    assert 0.95 * RATE <= turns.received["b"] <= 1.05 * RATE
    turns.throttle.leave("b")
    turns.run(1_000)
    assert not turns.timers
    turns.not_ready.clear()
    turns.throttle.serve()
    assert turns.received["a"] > 0


def test_bytes_are_not_taken_before_others_that_wait():
    turns = Turns()
    turns.not_ready.add("a")
    turns.throttle.wait("a")
    turns.run(100)
    assert turns.throttle.take("b") is None
    turns.throttle.leave("a")
    assert turns.throttle.take("b") is not None


def test_only_bytes_of_listed_replicas_count():
    turns = Turns()
    turns.throttle.record(TopicPartition("other", 0), 1_000)
    turns.throttle.record(TopicPartition("t", 7), 300)
    assert turns.throttle.quota.total_bytes == 300
    turns.throttle.set_replicas("t", ())
    turns.throttle.apply()
    assert not turns.throttle.is_active
