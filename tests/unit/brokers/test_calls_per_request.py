"""The request path stays as short as it is: Python calls are counted, not time."""

from pathlib import Path

import pytest

from bench import rounds, transaction_calls
from bench.calls import CEILINGS, REQUESTS, count_calls
from cluster.runtime.compiled import is_compiled


@pytest.mark.skipif(is_compiled(), reason="compiled functions are no Python calls")
@pytest.mark.parametrize("kind", CEILINGS)
def test_a_request_costs_no_more_python_calls_than_stated(tmp_path: Path, kind: str) -> None:
    calls = count_calls(tmp_path, kind)
    per_request = calls.total() / REQUESTS
    listed = "\n".join(f"{count / REQUESTS:6.2f} {name}" for name, count in calls.most_common())
    assert per_request <= CEILINGS[kind], listed
    assert calls["pipeline.Pipeline.on_frame"] == REQUESTS


@pytest.mark.skipif(is_compiled(), reason="compiled functions are no Python calls")
@pytest.mark.parametrize("partitions", transaction_calls.CEILINGS)
def test_a_transaction_costs_no_more_python_calls_than_stated(
    tmp_path: Path, partitions: int
) -> None:
    calls = transaction_calls.count_calls(tmp_path, partitions)
    count = transaction_calls.TRANSACTIONS
    listed = "\n".join(f"{each / count:6.2f} {name}" for name, each in calls.most_common())
    assert calls.total() / count <= transaction_calls.CEILINGS[partitions], listed
    assert calls["partition.Partition.append_marker"] == partitions * count


@pytest.mark.skipif(is_compiled(), reason="compiled functions are no Python calls")
def test_a_replicated_round_costs_no_more_python_calls_than_stated(tmp_path: Path) -> None:
    counted = rounds.count_calls(tmp_path, is_local=True)

    for (role, ceiling), calls in zip(rounds.CEILINGS.items(), counted, strict=True):
        listed = "\n".join(
            f"{count / rounds.ROUNDS:6.2f} {name}" for name, count in calls.most_common()
        )
        assert calls.total() / rounds.ROUNDS <= ceiling, f"{role}:\n{listed}"
    leader, follower = counted
    assert leader["leader_fetches.LeaderFetches.on_compact_fetch"] == 2 * rounds.ROUNDS
    assert follower["follower_fetcher.FollowerFetcher.on_compact_answer"] == rounds.ROUNDS
