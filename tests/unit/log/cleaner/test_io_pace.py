from cluster.log.cleaner.io_pace import IoPace


def test_pace_keeps_the_rate_over_time():
    pace, now_s = IoPace(1_000.0), 50.0
    for _ in range(100):
        now_s += 0.001 + pace.rest_s(100, now_s)
    assert 9.9 <= now_s - 50 <= 10.2


def test_work_slower_than_the_rate_never_rests():
    pace = IoPace(1_000.0)
    pace.rest_s(0, 0.0)
    assert [pace.rest_s(99, now_s / 10 + 0.1) for now_s in range(50)] == [0.0] * 50


def test_a_long_pause_gives_no_right_to_a_burst():
    pace = IoPace(1_000.0)
    pace.rest_s(0, 0.0)
    assert pace.rest_s(1_000, 100.0) > 0.8


def test_pace_never_sleeps_without_a_limit():
    assert IoPace(float("inf")).rest_s(1 << 40, 1.0) == 0.0
