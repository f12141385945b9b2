"""Which partitions count as held back for a group, and how that is said."""

from dataclasses import replace

from cluster.client.topic_requests import Place
from cluster.views.groups.held_back import held_back_advice, held_back_text, lasting
from tests.support.held_partitions import HELD

ORDERS = Place("orders", 0)
STABLE = HELD.last_stable_offset


def test_a_partition_is_held_back_if_it_stays_so_and_is_not_read_to_its_end() -> None:
    assert lasting({ORDERS: HELD}, {ORDERS: HELD}, {ORDERS: 0}) == [ORDERS]
    assert lasting({ORDERS: HELD}, {ORDERS: HELD}, {}) == [ORDERS]
    assert lasting({ORDERS: HELD}, {}, {ORDERS: 0}) == []
    moved = replace(HELD, last_stable_offset=STABLE + 1)
    assert lasting({ORDERS: HELD}, {ORDERS: moved}, {ORDERS: 0}) == []
    read = {ORDERS: HELD.high_watermark}  # by consumers with read_uncommitted
    assert lasting({ORDERS: HELD}, {ORDERS: HELD}, read) == []


def test_the_first_partitions_are_named() -> None:
    places = [Place("a", number) for number in range(7)]
    assert held_back_text(places).startswith(
        "Held back by a transaction: a-0, a-1, a-2, a-3, a-4 and 2 more. Consumers with"
    )
    (advice,) = held_back_advice(places)
    assert "`transactions explain --topic a`" in advice
