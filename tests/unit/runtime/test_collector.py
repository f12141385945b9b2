"""When partition objects are frozen, which excludes them from garbage collections."""

import gc
from collections.abc import Iterator

import pytest

from cluster.runtime.collector import PARTITIONS_PER_FREEZE, Growth, paused, suspended


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Unfreeze also what tests before it in this process have frozen."""
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_objects_are_frozen_once_per_so_many() -> None:
    calls: list[int] = []
    growth = Growth(lambda: calls.append(1))
    for _ in range(3 * PARTITIONS_PER_FREEZE - 1):
        growth.add(1)
    assert len(calls) == 2
    growth.add(1)
    assert len(calls) == 3


def test_growth_freezes_after_the_given_number() -> None:
    calls: list[int] = []
    growth = Growth(lambda: calls.append(1), per_freeze=3)
    growth.add(2)
    assert calls == []
    growth.add(1)
    assert len(calls) == 1


def test_growth_freezes_many_objects_at_once_and_none_for_zero() -> None:
    calls: list[int] = []
    growth = Growth(lambda: calls.append(1))
    growth.add(0)
    growth.add(PARTITIONS_PER_FREEZE - 1)
    assert calls == []
    growth.add(10 * PARTITIONS_PER_FREEZE)
    assert len(calls) == 1


def test_a_full_collection_skips_frozen_objects() -> None:
    made = [[number] for number in range(20_000)]
    Growth().add(PARTITIONS_PER_FREEZE)
    looked_at = {id(each) for each in gc.get_objects()}
    assert not looked_at.intersection(map(id, made))


def test_garbage_collection_resumes_when_the_paused_block_fails() -> None:
    seen: list[bool] = []

    def fail() -> None:
        with paused():
            seen.append(gc.isenabled())
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert (seen, gc.isenabled()) == ([False], True)
    assert gc.get_freeze_count() > 0


def test_collections_go_on_after_they_were_suspended() -> None:
    with suspended():
        assert not gc.isenabled()
        with suspended():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
