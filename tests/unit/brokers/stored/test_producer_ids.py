"""Producer ids: no two alike, blocks fetched one at a time, nobody left without an answer."""

from collections.abc import Callable

from cluster.brokers.stored.producer_ids import ProducerIds


class Registry:
    """Blocks are fetched when a test says so."""

    def __init__(self) -> None:
        self.fetches: list[tuple[Callable[[range], None], Callable[[Exception], None]]] = []
        self.ids = ProducerIds(lambda on_done, on_failed: self.fetches.append((on_done, on_failed)))
        self.given: list[int | None] = []

    def ask(self, times: int = 1) -> None:
        for _ in range(times):
            self.ids.next_id(self.given.append)

    def deliver(self, block: range) -> None:
        ((on_done, _),) = self.fetches
        self.fetches.clear()
        on_done(block)

    def fail(self) -> None:
        ((_, on_failed),) = self.fetches
        self.fetches.clear()
        on_failed(ConnectionError("gone"))


def test_ids_wait_for_a_block_and_come_from_it_at_once_afterwards() -> None:
    registry = Registry()

    registry.ask(2)
    assert registry.given == []
    registry.deliver(range(1000, 1003))
    assert registry.given == [1000, 1001]

    assert registry.fetches == []
    registry.ask()
    assert registry.given == [1000, 1001, 1002]


def test_a_block_that_was_fetched_ahead_is_used_without_the_registry() -> None:
    registry = Registry()

    registry.ids.fetch_ahead()
    registry.deliver(range(3000, 4000))
    registry.ids.fetch_ahead()
    assert registry.fetches == []
    registry.ask(899)
    assert registry.given == list(range(3000, 3899))
    assert registry.fetches == []


def test_the_next_block_is_fetched_before_the_last_is_used_up() -> None:
    registry = Registry()

    registry.ids.fetch_ahead()
    registry.deliver(range(1000))
    registry.ask(950)
    registry.fail()
    registry.ask(10)
    registry.deliver(range(5000, 6000))
    registry.ask(100)

    assert registry.given == [*range(1000), *range(5000, 5060)]
    assert registry.fetches == []


def test_more_than_a_block_holds_waits_for_the_next() -> None:
    registry = Registry()

    registry.ask(5)
    registry.deliver(range(2))
    assert registry.given == [0, 1]
    registry.deliver(range(2000, 2010))

    assert registry.given == [0, 1, 2000, 2001, 2002]


def test_unreachable_key_server_is_asked_again_for_the_next_client() -> None:
    registry = Registry()

    registry.ask(2)
    registry.fail()
    assert registry.given == [None, None]
    registry.ask()
    registry.deliver(range(7, 9))

    assert registry.given == [None, None, 7]


def test_request_made_within_an_answer_is_served() -> None:
    registry = Registry()
    registry.ids.next_id(lambda _: registry.ask())

    registry.deliver(range(1))
    registry.deliver(range(5, 6))

    assert registry.given == [5]
