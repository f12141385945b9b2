from types import SimpleNamespace
from typing import Any

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.load_run import LoadResult
from cluster.loadtest.result_text import result_json, result_text, wait_line
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
