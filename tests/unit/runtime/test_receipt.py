"""Message sockets that share a turn: their common budget, and the order of their turns."""

from collections.abc import Callable

from cluster.runtime.receipt import BUDGET_NS, SHARE_NS, Receipt

MESSAGE_NS = SHARE_NS // 2


class Turns:
    """A loop that the test turns, and a clock that advances while messages are handled."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.number = 0
        self.received: list[str] = []
        self._posted: list[Callable[[], None]] = []
        self.receipt = Receipt(lambda: self.now_ns, lambda: self.number, self._posted.append)

    def turn(self, *ready: "Source") -> list[str]:
        """Run one turn with these sources ready; returns the messages received in it."""
        self.number += 1
        for source in ready:
            self.receipt.take(source)
        posted, self._posted[:] = list(self._posted), []
        for call in posted:
            call()
        received, self.received = self.received, []
        return received


class Source:
    """A socket with a number of messages, each of which takes time."""

    def __init__(self, turns: Turns, name: str, count: int, message_ns: int = MESSAGE_NS) -> None:
        self._turns = turns
        self._name = name
        self.count = count
        self._message_ns = message_ns

    def receive(self, until_ns: int) -> bool:
        while self.count:
            self.count -= 1
            self._turns.received.append(self._name)
            self._turns.now_ns += self._message_ns
            if self._turns.now_ns >= until_ns:
                return False
        return True


def test_input_within_the_budget_is_received_at_once() -> None:
    turns = Turns()
    source = Source(turns, "a", count=3)

    turns.receipt.take(source)

    assert turns.received == ["a"] * 3


def test_many_full_sockets_take_no_more_of_a_turn_than_one() -> None:
    turns = Turns()
    sources = [Source(turns, name, count=100) for name in "abcdef"]

    for _ in range(50):
        began_ns = turns.now_ns
        turns.turn(*sources)
        assert turns.now_ns - began_ns <= BUDGET_NS


def test_a_message_longer_than_the_budget_is_all_of_a_turn() -> None:
    turns = Turns()
    sources = [Source(turns, name, count=2, message_ns=2 * BUDGET_NS) for name in "ab"]
    turns.turn(sources[0])

    assert [turns.turn(*sources) for _ in range(5)] == [["a"], ["b"], ["b"], [], []]


def test_sockets_that_wait_have_their_shares_in_turn() -> None:
    turns = Turns()
    busy, other = Source(turns, "a", count=100), Source(turns, "b", count=3)
    assert set(turns.turn(busy)) == {"a"}

    assert turns.turn(other) == ["a", "a", "b", "b", "a", "a"]
    assert turns.turn()[:3] == ["b", "a", "a"]


def test_everything_is_received_in_the_order_in_which_it_came() -> None:
    turns = Turns()
    source = Source(turns, "a", count=25)
    counts = [len(turns.turn(source))]
    while source.count:
        counts.append(len(turns.turn()))

    assert sum(counts) == 25
    assert turns.turn() == []
