"""Jobs whose steps alternate on another thread."""

from collections.abc import Iterator

import pytest

from cluster.model.errors import ErrorCode, Refused
from cluster.runtime.long_work import Job, LongWork
from cluster.runtime.loop_time import LoopTime, Payer
from tests.support.manual_background import ManualBackground


class Stage:
    """Long work whose thread and loop the test runs."""

    def __init__(self) -> None:
        self.thread = ManualBackground()
        self.names: list[str] = []
        ticks: Iterator[int] = iter(range(0, 10**9, 1_000))
        self.time = LoopTime(lambda: 0, lambda: 0)
        self.work = LongWork(
            self._make, lambda call: call(), self.time, thread_cpu_ns=lambda: next(ticks)
        )
        self.failures = 0

    def _make(self, name: str, share: float) -> ManualBackground:
        self.names.append(f"{name} {share}")
        return self.thread

    def start(self, job: Job, payer: Payer | None = None) -> None:
        self.work.start(job, payer or Payer(), self._on_failed)

    def _on_failed(self) -> None:
        self.failures += 1


@pytest.fixture
def stage() -> Stage:
    return Stage()


def counting(name: str, count: int, done: list[str]) -> Job:
    for number in range(count):
        found = yield lambda number=number: number
        done.append(f"{name}{found}")


def test_jobs_take_turns_and_the_thread_is_made_once(stage: Stage) -> None:
    done: list[str] = []
    stage.start(counting("a", 3, done))
    stage.start(counting("b", 1, done))
    while stage.thread.do_one():
        pass
    assert done == ["a0", "b0", "a1", "a2"]
    assert stage.names == ["long-work 1.0"]


def test_an_exception_of_a_step_is_raised_in_its_job(stage: Stage) -> None:
    told: list[str] = []

    def refuse() -> None:
        raise Refused(ErrorCode.invalid_record, "no")

    def job() -> Job:
        try:
            yield refuse
        except Refused as refused:
            told.append(refused.detail)
        told.append((yield lambda: "on"))

    stage.start(job())
    while stage.thread.do_one():
        pass
    assert (told, stage.failures) == (["no", "on"], 0)


def test_a_bug_ends_its_job_alone_and_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def wrong() -> Job:
        yield lambda: 1 // 0

    stage.start(wrong())
    stage.start(counting("b", 1, done))
    while stage.thread.do_one():
        pass
    assert (done, stage.failures) == (["b0"], 1)
    assert "long work failed" in caplog.text


def test_thread_time_is_charged_to_the_requester(stage: Stage) -> None:
    payers: list[Payer] = []

    def job() -> Job:
        yield lambda: None
        payers.append(stage.time.payer)

    me = Payer()
    stage.start(job(), me)
    stage.thread.do_one()
    assert me.owed_ns == 1_000
    assert payers == [me]
    assert stage.time.payer is stage.time.exempt


def test_a_close_drops_what_has_not_begun(stage: Stage) -> None:
    stage.work.close()
    done: list[str] = []
    stage.start(counting("a", 1, done))
    stage.work.close()
    assert done == []
