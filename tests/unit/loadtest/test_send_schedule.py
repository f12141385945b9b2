from hypothesis import given
from hypothesis import strategies as st

from cluster.loadtest.send_schedule import GRACE_US, UNLIMITED, SendSchedule

SECOND_US = 1_000_000


def test_records_are_due_at_even_distances_from_the_start():
    schedule = SendSchedule(start_us=5_000, records_per_s=1_000)
    assert [schedule.due_at_us(n, now_us=0) for n in (0, 1, 2, 1_000)] == [
        5_000,
        6_000,
        7_000,
        1_005_000,
    ]


def test_record_is_due_from_its_due_time_on():
    schedule = SendSchedule(start_us=0, records_per_s=1_000)
    assert [schedule.due_count(now) for now in (-1, 0, 999, 1_000, 2_500)] == [0, 1, 1, 2, 3]


def test_late_record_keeps_its_due_time():
    schedule = SendSchedule(start_us=0, records_per_s=10)
    stalled_until_us = 3 * SECOND_US
    assert schedule.due_count(stalled_until_us) == 31
    assert stalled_until_us - schedule.due_at_us(5, stalled_until_us) == 2_500_000


def test_schedule_ends_after_the_record_count():
    schedule = SendSchedule(start_us=0, records_per_s=100, record_count=7)
    assert schedule.due_count(SECOND_US) == 7
    assert not schedule.is_over(6, SECOND_US)
    assert schedule.is_over(7, SECOND_US)


def test_schedule_ends_after_the_duration_when_all_is_sent():
    schedule = SendSchedule(start_us=0, records_per_s=100, duration_us=2 * SECOND_US)
    assert schedule.due_count(10 * SECOND_US) == 200
    assert not schedule.is_over(200, 2 * SECOND_US - 1)
    assert not schedule.is_over(199, 2 * SECOND_US)
    assert schedule.is_over(200, 2 * SECOND_US)


def test_schedule_ends_after_the_grace_period_with_unsent_records():
    schedule = SendSchedule(start_us=0, records_per_s=100, duration_us=2 * SECOND_US)
    end_us = 2 * SECOND_US + GRACE_US
    assert not schedule.is_over(3, end_us - 1)
    assert schedule.is_over(3, end_us)
    assert schedule.unsent(3, end_us) == 197


def test_unlimited_schedule_is_always_due():
    schedule = SendSchedule(start_us=0, records_per_s=UNLIMITED, record_count=50)
    assert schedule.due_count(1) == 50
    assert schedule.due_at_us(49, now_us=77) == 77
    endless = SendSchedule(start_us=0, records_per_s=UNLIMITED, duration_us=SECOND_US)
    assert endless.due_count(1) is None
    assert not endless.is_over(10**9, SECOND_US - 1)
    assert endless.is_over(0, SECOND_US)
    assert schedule.due_count(-1) == 0
    assert schedule.unsent(10, 1) == 0


@given(
    st.integers(min_value=1, max_value=7),
    st.integers(min_value=1, max_value=200),
    st.sampled_from([3.0, 10.0, 1_000.0, 4_096.0]),
)
def test_shares_add_up_to_the_whole_schedule(count, record_count, rate):
    whole = SendSchedule(start_us=100, records_per_s=rate, record_count=record_count)
    shares = [SendSchedule.share(whole, index, count) for index in range(count)]
    assert sum(share.record_count for share in shares) == record_count
    expected = [whole.due_at_us(n, 0) for n in range(record_count)]
    together = sorted(share.due_at_us(n, 0) for share in shares for n in range(share.record_count))
    assert all(abs(one - other) <= 1 for one, other in zip(expected, together, strict=True))


def test_shares_of_an_unlimited_schedule_are_unlimited():
    share = SendSchedule.share(SendSchedule(9, UNLIMITED, 5), 1, 2)
    assert (share.start_us, share.records_per_s, share.record_count) == (9, UNLIMITED, 2)
