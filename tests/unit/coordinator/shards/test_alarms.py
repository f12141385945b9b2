"""Alarms ring once at their time, however often they were postponed or brought forward."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.shards.alarms import DROPPED_MAX, Alarms
from cluster.model.clocks import Moment, MonotonicMs, WallMs


def at(now_ms: int) -> Moment:
    return Moment(MonotonicMs(now_ms), WallMs(0))


def test_an_alarm_rings_at_the_later_time_when_it_is_postponed():
    alarms, rung = Alarms(), []
    alarm = alarms.alarm(lambda now: rung.append(now.monotonic_ms))
    alarm.set(MonotonicMs(10))
    alarm.set(MonotonicMs(20))
    assert alarms.ring(at(19), at_most=9) == 0
    assert alarms.next_ms() == 20
    assert alarms.ring(at(20), at_most=9) == 1
    assert rung == [20]
    assert alarms.next_ms() is None


def test_an_alarm_rings_once_when_it_is_brought_forward():
    alarms, rung = Alarms(), []
    alarm = alarms.alarm(lambda now: rung.append(now.monotonic_ms))
    alarm.set(MonotonicMs(100))
    alarm.set_after(at(5), 10)
    alarms.ring(at(15), at_most=9)
    alarms.ring(at(200), at_most=9)
    assert rung == [15]


def test_a_turn_rings_at_most_the_allowed_number():
    alarms, rung = Alarms(), []
    for number in range(5):
        alarms.alarm(lambda _, number=number: rung.append(number)).set(MonotonicMs(number))
    assert alarms.ring(at(10), at_most=3) == 3
    assert rung == [0, 1, 2]
    assert alarms.next_ms() == 3


def test_dropped_alarms_leave_the_heap_before_their_time():
    alarms, rung = Alarms(), []
    kept = alarms.alarm(lambda now: rung.append(now.monotonic_ms))
    kept.set(MonotonicMs(2_000_000))
    for number in range(5 * DROPPED_MAX):
        short_lived = alarms.alarm(lambda now: rung.append(now.monotonic_ms))
        short_lived.set(MonotonicMs(1_000_000 + number))
        short_lived.drop()
    assert len(alarms) <= DROPPED_MAX
    alarms.ring(at(3_000_000), at_most=9)
    assert rung == [3_000_000]


def test_alarms_may_be_dropped_while_others_ring():
    alarms = Alarms()
    rung: list[int] = []
    others = [
        alarms.alarm(lambda now: rung.append(now.monotonic_ms)) for _ in range(2 * DROPPED_MAX)
    ]
    last = alarms.alarm(lambda now: rung.append(-now.monotonic_ms))

    def drop_others(_: Moment) -> None:
        for other in others:
            other.drop()

    alarms.alarm(drop_others).set(MonotonicMs(1))
    for other in others:
        other.set(MonotonicMs(2))
    last.set(MonotonicMs(3))
    alarms.ring(at(3), at_most=9)
    assert rung == [-3]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.integers(0, 50), st.integers(0, 5)),
        max_size=60,
    )
)
def test_alarms_ring_as_in_a_plain_list(steps):
    alarms = Alarms()
    rung: list[tuple[int, int]] = []
    now_ms = 0
    made = [
        alarms.alarm(lambda _, number=number: rung.append((number, now_ms))) for number in range(4)
    ]
    deadlines: dict[int, int] = {}
    expected: list[tuple[int, int]] = []
    for number, delay, step in steps:
        if delay is None:
            made[number].cancel()
            deadlines.pop(number, None)
        else:
            made[number].set_after(at(now_ms), delay)
            deadlines[number] = now_ms + delay
        now_ms += step
        due = sorted(each for each, deadline in deadlines.items() if deadline <= now_ms)
        expected += [(each, now_ms) for each in due]
        for each in due:
            del deadlines[each]
        alarms.ring(at(now_ms), at_most=99)
        next_ms = alarms.next_ms()
        assert not deadlines or next_ms <= min(deadlines.values())
    assert sorted(rung) == sorted(expected)
