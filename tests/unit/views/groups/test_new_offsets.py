"""Where a reset sets the offsets of a group."""

import pytest

from cluster.client.topic_requests import Place
from cluster.model.errors import UserError
from cluster.views.groups.new_offsets import shifted


def test_partitions_without_an_offset_are_named_up_to_a_number() -> None:
    places = [Place("orders", number) for number in range(10_000)]
    with pytest.raises(UserError) as refused:
        shifted(places, {places[0]: 5}, 1)
    text = str(refused.value)
    assert text.startswith("cannot shift offsets for orders-1, orders-2, ")
    assert text.endswith("orders-20 and 9,979 more: there is no committed offset")
    assert shifted(places[:1], {places[0]: 5}, -7) == {places[0]: -2}
