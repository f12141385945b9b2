from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.load_run import LoadResult
from cluster.loadtest.result_text import catching_up_line, result_json, result_text, wait_line
from cluster.loadtest.sequence_check import Verified
from cluster.loadtest.spawned_process import WaitForAnswers


def a_result(*, failed: int, verified: Verified, waited_s: float = 0.0) -> LoadResult:
    total = ClientInterval(0, 1_000_000)
    total.failed = failed
    producer: Any = SimpleNamespace(
        name="p",
        total=total,
        unsent=0,
        waited_s=waited_s,
        wait=WaitForAnswers(7, 0),
        order=SimpleNamespace(properties={"message.timeout.ms": 60_000}),
    )
    return LoadResult("t", [producer], [], 1.0, is_interrupted=False, verified=verified)


def test_failed_sends_are_reported_when_no_acknowledged_record_is_lost():
    result = a_result(failed=13_115, verified=Verified(59_718, 51_219, 0, 0, 0))
    assert result_text(result).splitlines()[-1] == (
        "✗ 51219 of 59718 records arrived, 13115 could not be delivered, 0 others lost,"
        " 0 duplicates, 0 out of order"
    )
    assert result.exit_status == 1


def test_verified_line_has_a_check_mark_without_faults():
    result = a_result(failed=0, verified=Verified(10, 10, 0, 0, 0))
    assert result_text(result).splitlines()[-1].startswith("✓ 10 of 10 records arrived, 0 lost,")
    assert "waited" not in result_text(result)


def test_a_long_wait_for_answers_is_explained():
    result = a_result(failed=1, verified=Verified(1, 0, 0, 0, 0), waited_s=61.2)
    assert (
        "p waited 61 s after its last record for answers"
        " (at most message.timeout.ms=60000 for each)"
    ) in result_text(result).splitlines()
    assert result_json(result)["producers"][0]["waited_s"] == 61.2
    assert wait_line(result.producers[0]) == (
        "p has sent its last record and waits for the answers to 7"
        " (at most message.timeout.ms=60000 for each)"
    )


def test_summary_says_what_became_of_each_record_in_units_of_one_system():
    result = a_result(failed=2, verified=Verified(10, 8, 0, 0, 0))
    result.producers[0].total.records = 8
    lines = result_text(result).splitlines()
    assert "Sent 10 records: 8 acknowledged, 2 failed, 0 unacknowledged." in lines
    assert (
        "8 records sent, 8.0 records/s (0.00 MiB/s), 0.0 ms avg latency, 0.0 ms max latency,"
        " 0.0 ms 50th, 0.0 ms 95th, 0.0 ms 99th, 0.0 ms 99.9th." in lines
    )


def test_unacknowledged_records_make_a_run_fail_without_consumers():
    result = replace(a_result(failed=0, verified=Verified(0, 0, 0, 0, 0)), verified=None)
    assert result_text(result).splitlines()[-1] == "✓ Every record was acknowledged."
    result.producers[0].total.abandoned = 3
    assert result.exit_status == 1
    assert result_text(result).splitlines()[-1] == "✗ Not every record was acknowledged."
    assert "Sent 3 records: 0 acknowledged, 0 failed, 3 unacknowledged." in result_text(result)


def test_consumers_catch_up_after_the_last_producer_has_ended():
    def worker(records: int, *, is_producer: bool, is_done: bool) -> Any:
        total = ClientInterval(0, 1)
        total.records = records
        return SimpleNamespace(total=total, is_producer=is_producer, is_done=is_done)

    reader = worker(1_200, is_producer=False, is_done=False)
    assert catching_up_line([worker(9, is_producer=True, is_done=False), reader]) is None
    assert catching_up_line([worker(2_500, is_producer=True, is_done=True), reader]) == (
        "All records are sent. Waiting for the consumers to catch up:"
        " 1,200 of 2,500 records have arrived"
    )
    reader.is_done = True
    assert catching_up_line([worker(2_500, is_producer=True, is_done=True), reader]) is None
