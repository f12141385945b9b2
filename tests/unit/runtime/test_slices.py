"""Long work in slices: its share of a turn, and the order of jobs."""

from collections.abc import Callable, Iterator

from cluster.runtime.slices import Slices


class Turns:
    """A loop that the test turns, and a clock that advances with each step."""

    def __init__(self, budget_us: int) -> None:
        self.now_us = 0
        self.did: list[str] = []
        self._posted: list[Callable[[], None]] = []
        self.slices = Slices(lambda: self.now_us, self._posted.append, budget_us)

    def job(self, name: str, steps: int, step_us: int) -> Iterator[None]:
        for number in range(steps):
            self.did.append(f"{name}{number}")
            self.now_us += step_us
            yield
        self.did.append(f"{name} done")

    def turn(self) -> list[str]:
        posted, self._posted[:] = list(self._posted), []
        for call in posted:
            call()
        did, self.did = self.did, []
        return did


def test_a_turn_has_no_more_steps_than_its_budget() -> None:
    turns = Turns(budget_us=1_000)
    turns.slices.start(turns.job("a", steps=10, step_us=300))

    assert turns.turn() == ["a0", "a1", "a2", "a3"]
    assert turns.turn() == ["a4", "a5", "a6", "a7"]
    assert not turns.slices.is_idle
    assert turns.turn() == ["a8", "a9", "a done"]
    assert turns.slices.is_idle
    assert turns.turn() == []


def test_a_step_that_takes_longer_than_the_budget_is_one_turn() -> None:
    turns = Turns(budget_us=1_000)
    turns.slices.start(turns.job("a", steps=2, step_us=5_000))

    assert [turns.turn(), turns.turn(), turns.turn()] == [["a0"], ["a1"], ["a done"]]


def test_a_short_job_does_not_wait_for_a_long_one() -> None:
    turns = Turns(budget_us=1_000)
    turns.slices.start(turns.job("long", steps=1_000, step_us=300))
    turns.turn()
    turns.slices.start(turns.job("short", steps=2, step_us=300))

    assert turns.turn() == ["long4", "short0", "long5", "short1"]
    assert "short done" in turns.turn()


def test_the_first_steps_are_done_at_once() -> None:
    turns = Turns(budget_us=1_000)
    turns.slices.start(turns.job("a", steps=2, step_us=300), steps_at_once=3)
    assert turns.turn() == ["a0", "a1", "a done"]
    assert turns.slices.is_idle

    turns.slices.start(turns.job("b", steps=3, step_us=300), steps_at_once=1)
    assert turns.did == ["b0"]


def test_a_job_started_by_a_step_runs_in_its_turn() -> None:
    turns = Turns(budget_us=1_000)

    def outer() -> Iterator[None]:
        turns.slices.start(turns.job("inner", steps=1, step_us=0))
        yield
        turns.did.append("outer done")

    turns.slices.start(outer())

    assert turns.turn() == ["inner0", "outer done", "inner done"]
