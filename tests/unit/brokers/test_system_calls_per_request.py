"""A request takes no more system calls than stated: they are counted, not timed."""

from pathlib import Path

import pytest

from bench.rounds import ROUNDS
from bench.system_calls import (
    CEILINGS,
    MARGIN,
    ROUND_CEILINGS,
    TIMED,
    count_in_process,
    count_rounds_in_process,
)
from cluster.runtime.compiled import is_compiled

REQUESTS = 50


@pytest.mark.skipif(is_compiled(), reason="calls of compiled functions are not counted")
@pytest.mark.parametrize("kind", CEILINGS)
def test_a_request_takes_no_more_system_calls_than_stated(tmp_path: Path, kind: str) -> None:
    calls = count_in_process(tmp_path, kind, REQUESTS)
    del calls[TIMED]
    assert 0 < calls.total() <= (CEILINGS[kind] + MARGIN) * REQUESTS, calls


@pytest.mark.skipif(is_compiled(), reason="calls of compiled functions are not counted")
def test_a_replicated_round_takes_no_more_system_calls_than_stated(tmp_path: Path) -> None:
    for role, calls in zip(ROUND_CEILINGS, count_rounds_in_process(tmp_path), strict=True):
        del calls[TIMED]
        assert 0 < calls.total() <= (ROUND_CEILINGS[role] + MARGIN) * ROUNDS, (role, calls)
