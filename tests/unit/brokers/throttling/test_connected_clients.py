"""Connections are counted for the client that uses them; pauses while muted are observed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.model.quota_pauses import NO_PAUSES, Pauses
from cluster.model.quotas import QuotaKind


class Link:
    def __init__(self, software: tuple[str, str] = ("", "")) -> None:
        self.software = software


def a_link(*software: str) -> Any:
    return Link((software[0], software[1]) if software else ("", ""))


def test_the_software_is_that_of_the_newest_connection_that_told_it():
    connected = ConnectedClients()
    first, second = a_link("sarama", "1.45.2"), a_link()
    connected.on_request_kind(first, "u", "c")
    connected.on_request_kind(second, "u", "c")
    client = connected.get("u", "c")
    assert client is not None
    assert (client.connection_count, client.software) == (2, ("", ""))
    second.software = ("sarama", "1.46.0")
    assert client.software == ("sarama", "1.46.0")
    connected.on_closed(second)
    connected.on_closed(first)
    assert (client.connection_count, client.software) == (0, ("sarama", "1.46.0"))


def test_a_connection_counts_for_the_client_of_its_newest_requests():
    connected = ConnectedClients()
    link = a_link()
    connected.on_request_kind(link, "ANONYMOUS", "c")
    connected.on_request_kind(link, "alice", "c")
    before, after = connected.get("ANONYMOUS", "c"), connected.get("alice", "c")
    assert before is not None
    assert after is not None
    assert (before.connection_count, after.connection_count) == (0, 1)
    assert list(connected.take_changed()) == [("ANONYMOUS", "c"), ("alice", "c")]
    assert list(connected.take_changed()) == []


def test_mutes_are_counted_by_quota_and_connections_once():
    connected = ConnectedClients()
    first, second = a_link(), a_link()
    for link in (first, second):
        connected.on_request_kind(link, "u", "c")
    for came in (False, True, True):
        connected.on_mute_over(first, QuotaKind.PRODUCE, came=came, waited=False)
    connected.on_mute_over(second, QuotaKind.PRODUCE, came=False, waited=False)
    connected.on_mute_over(second, QuotaKind.FETCH, came=False, waited=False)
    connected.on_mute_over(second, QuotaKind.FETCH, came=False, waited=True)
    connected.on_mute_over(
        a_link(), QuotaKind.FETCH, came=False, waited=False
    )  # never sent a request
    client = connected.get("u", "c")
    assert client is not None
    assert client.pauses == {
        QuotaKind.PRODUCE: Pauses(2, 2, 2, 1),
        QuotaKind.FETCH: Pauses(1, 0, 1, 0, 1),
    }


def test_verdict_needs_mutes_and_allows_for_requests_in_flight():
    assert NO_PAUSES.honors_throttling is None
    assert Pauses(2, 0, 1, 0).honors_throttling is None
    assert Pauses(3, 0, 1, 0).honors_throttling is True
    assert Pauses(0, 0, 1, 0, 50).honors_throttling is None
    assert Pauses(0, 3, 1, 0, 50).honors_throttling is False
    assert Pauses(5, 5, 1, 1).honors_throttling is True
    assert Pauses(3, 7, 1, 1).honors_throttling is True
    assert Pauses(2, 8, 1, 1).honors_throttling is None
    assert Pauses(1, 9, 1, 1).honors_throttling is False


def test_clients_without_connections_are_forgotten_when_there_are_too_many():
    connected = ConnectedClients(clients_max=10)
    kept = a_link()
    connected.on_request_kind(kept, "u", "kept")
    for number in range(100):
        link = a_link()
        connected.on_request_kind(link, "u", str(number))
        connected.on_closed(link)
    known = [number for number in range(100) if connected.get("u", str(number))]
    assert known == list(range(100 - len(known), 100))
    assert len(known) <= 11
    assert connected.get("u", "kept") is not None


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None]))))
def test_counts_are_those_of_the_open_connections(events):
    connected = ConnectedClients(clients_max=1)
    links = [a_link() for _ in range(5)]
    present: dict[int, str] = {}
    for number, client_id in events:
        if client_id is None:
            connected.on_closed(links[number])
            present.pop(number, None)
        else:
            connected.on_request_kind(links[number], "u", client_id)
            present[number] = client_id
        for each in "ab":
            client = connected.get("u", each)
            count = 0 if client is None else client.connection_count
            assert count == list(present.values()).count(each)
