import json

from cluster.loadtest.client_interval import ClientInterval, total, within

SECOND_US = 1_000_000


def an_interval(second: int, *, records: int = 1, partition: int = 0) -> ClientInterval:
    interval = ClientInterval(second * SECOND_US, (second + 1) * SECOND_US)
    for number in range(records):
        interval.on_record(partition, 100, 1_000 * (number + 1))
    return interval


def test_intervals_add_up_over_their_whole_time():
    whole = total([an_interval(1, records=3), an_interval(2, records=5, partition=1)])
    assert whole.seconds == 2
    assert (whole.records, whole.records_per_s) == (8, 4)
    assert (whole.size_bytes, whole.bytes_per_s) == (800, 400)
    assert dict(whole.bytes_by_partition) == {0: 300, 1: 500}
    assert whole.latency.max_us == 5_000


def test_adding_up_leaves_the_parts_as_they_are():
    parts = [an_interval(1), an_interval(2)]
    total(parts)
    assert [part.records for part in parts] == [1, 1]


def test_total_of_no_intervals_is_empty():
    assert total([]).records_per_s == 0


def test_transactions_add_up():
    parts = [an_interval(1), an_interval(2)]
    for part in parts:
        part.transactions, part.aborted_transactions = 3, 1
        part.commit_latency.record(2_000)
    whole = total([ClientInterval.from_json(json.loads(json.dumps(p.to_json()))) for p in parts])
    assert (whole.transactions, whole.transactions_per_s, whole.aborted_transactions) == (6, 3, 2)
    assert whole.commit_latency.max_us == 2_000


def test_throttle_count_ignores_zero_throttle_times():
    interval = ClientInterval(0)
    for told_ms in (200, 0, 400):
        interval.on_throttle(told_ms)
    assert (interval.throttle_ms, interval.throttle_count) == (600, 2)
    assert (interval.throttle_ms_average, interval.throttle_ms_max) == (300, 400)


def test_a_flood_of_different_errors_is_bounded():
    interval = ClientInterval(0)
    for number in range(1_000):
        interval.on_error(f"error {number}")
    assert len(interval.errors) <= 21
    assert sum(interval.errors.values()) == 1_000


def test_another_process_reads_the_same_interval():
    original = an_interval(3, records=2, partition=4)
    original.sent, original.failed, original.abandoned = 5, 2, 1
    original.on_throttle(30)
    original.on_error("timed out")
    original.send_delay.record(17)
    copy = ClientInterval.from_json(json.loads(json.dumps(original.to_json())))
    assert copy.to_json() == original.to_json()
    assert copy.bytes_by_partition[4] == 200


def test_within_returns_only_intervals_inside():
    parts = [an_interval(second) for second in range(6)]
    chosen = within(parts, from_us=1_500_000, until_us=5 * SECOND_US)
    assert [part.from_us // SECOND_US for part in chosen] == [2, 3, 4]
