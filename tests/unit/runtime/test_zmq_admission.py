"""Which connections of other brokers are admitted, as ZeroMQ asks (ZAP)."""

from collections.abc import Callable, Collection

from cluster.runtime.loop import EventLoop
from cluster.runtime.zmq_admission import _ASKED_MAX, _LOOK_UPS, _PAUSE_MS, Admission
from tests.support.fake_clock import FakeClock

OWN, FRIEND, STRANGER = (bytes([number]) * 32 for number in range(3))


class Stage:
    """An admission whose lookups the test answers."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.look_ups: list[Callable[[Collection[bytes] | None], None]] = []
        self.answers: list[tuple[bytes, bytes]] = []
        self.admission = Admission(self.loop, OWN, self.look_ups.append, self._on_answer)

    def _on_answer(self, frames: list[bytes]) -> None:
        assert frames[:3] == [b"route", b"", b"1.0"]
        self.answers.append((frames[3], frames[4]))

    def ask(self, number: int, key: bytes, mechanism: bytes = b"CURVE") -> None:
        asked = b"%d" % number
        where = [b"brokers", b"127.0.0.1", b""]
        self.admission.on_question([b"route", b"", b"1.0", asked, *where, mechanism, key])

    def found(self, keys: Collection[bytes] | None) -> None:
        self.look_ups.pop()(keys)
        self.clock.pass_time(_PAUSE_MS)
        self.loop.run_once(max_wait_ms=0)


def test_our_own_key_needs_no_look_up() -> None:
    stage = Stage()
    stage.ask(1, OWN)
    assert stage.answers == [(b"1", b"200")]
    assert stage.look_ups == []


def test_a_key_that_is_found_is_taken_and_remembered() -> None:
    stage = Stage()
    stage.ask(1, FRIEND)
    assert stage.answers == []
    stage.found({FRIEND})
    stage.ask(2, FRIEND)
    assert stage.answers == [(b"1", b"200"), (b"2", b"200")]
    assert stage.look_ups == []


def test_a_key_that_is_not_found_is_refused_after_some_look_ups() -> None:
    stage = Stage()
    stage.ask(1, STRANGER)
    for _ in range(_LOOK_UPS):
        assert stage.answers == []
        stage.found({FRIEND})
    assert stage.answers == [(b"1", b"300")]
    assert stage.look_ups == []


def test_questions_that_come_during_a_look_up_wait_for_the_next() -> None:
    stage = Stage()
    stage.ask(1, STRANGER)
    stage.ask(2, FRIEND)
    assert len(stage.look_ups) == 1
    stage.found(())
    stage.found({FRIEND})
    assert stage.answers == [(b"2", b"200")]


def test_while_the_registry_is_away_known_keys_stay_known() -> None:
    stage = Stage()
    stage.ask(1, FRIEND)
    stage.found({FRIEND})
    stage.ask(2, STRANGER)
    stage.found(None)
    stage.ask(3, FRIEND)
    assert stage.answers == [(b"1", b"200"), (b"3", b"200")]


def test_a_broker_that_is_registered_no_more_is_forgotten() -> None:
    stage = Stage()
    stage.ask(1, FRIEND)
    stage.found({FRIEND})
    stage.ask(2, STRANGER)
    stage.found({STRANGER})
    stage.ask(3, FRIEND)
    assert stage.answers == [(b"1", b"200"), (b"2", b"200")]


def test_other_mechanisms_and_malformed_questions_are_refused() -> None:
    stage = Stage()
    stage.ask(1, b"", mechanism=b"NULL")
    stage.admission.on_question([b"route", b"", b"1.0", b"2", b"brokers"])
    stage.admission.on_question([b"route"])
    assert stage.answers == [(b"1", b"300"), (b"2", b"300")]


def test_strangers_that_wait_are_limited() -> None:
    stage = Stage()
    for number in range(_ASKED_MAX + 2):
        stage.ask(number, STRANGER)
    assert [status for _, status in stage.answers] == [b"300"]
    assert len(stage.look_ups) == 1
