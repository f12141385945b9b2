"""Requests of fetch sessions (KIP-227), usual and bad ones, and their answers: of any broker."""

import uuid
from collections.abc import Iterator
from typing import Any, Protocol

from tests.support.handler_requests import a_batch, codes_of, produced_in
from tests.support.kafka_wire import fetch_from, produce_to, wanted

SIZE = len(a_batch(b"x" * 100))
_EVERY_VERSION = (7, 11, 12, 13, 17)


class Place(Protocol):
    """One broker and a client of it."""

    def call(self, message: Any) -> Any:
        """The answer to a request."""
        ...

    def create(self, topic: str, partitions: int) -> uuid.UUID:
        """Create a topic; returns its id when the broker leads its partitions."""
        ...

    def delete(self, topic: str) -> None:
        """Delete a topic; returns when the broker does not know it any more."""
        ...


class _Client:
    """Fetches in sessions in one version; an answer is summed up as what must be equal."""

    def __init__(self, place: Place, version: int) -> None:
        self.place = place
        self.version = version
        self.ids: dict[str, uuid.UUID] = {}
        self.session = 0

    def create(self, topic: str, partitions: int) -> None:
        self.ids[topic] = self.place.create(topic, partitions)

    def named(self, topic: str) -> Any:
        if self.version < 13:
            return topic
        return self.ids.setdefault(topic, uuid.uuid5(uuid.NAMESPACE_DNS, "none"))

    def fetch(
        self,
        epoch: int,
        *topics: tuple[str, list[Any]],
        session: int | None = None,
        forgotten: tuple[tuple[str, list[int]], ...] = (),
        version: int | None = None,
        max_bytes: int = 1 << 20,
    ) -> tuple[Any, ...]:
        """The error, what the session id is, and of each topic in order its partitions."""
        asked = self.session if session is None else session
        answer = self.place.call(
            fetch_from(
                *[(self.named(topic), partitions) for topic, partitions in topics],
                session=(asked, epoch),
                forgotten=[(self.named(topic), indexes) for topic, indexes in forgotten],
                version=version or self.version,
                max_bytes=max_bytes,
            )
        )
        names = {each: name for name, each in self.ids.items()}
        got = answer.session_id
        if epoch == 0 and got:
            self.session = got
        return (
            int(answer.error_code),
            "none" if not got else "same" if got == asked else "new",
            [
                (
                    topic.topic if self.version < 13 else names.get(topic.topic_id),
                    [
                        (each.partition_index, int(each.error_code), each.high_watermark,
                         each.log_start_offset, len(each.records or b"") // SIZE)
                        for each in topic.partitions
                    ],
                )
                for topic in answer.responses
            ],
        )  # fmt: skip

    def append(self, topic: str, *partitions: int) -> None:
        for partition in partitions:
            answer = self.place.call(produce_to((topic, partition, a_batch(b"x" * 100)), acks=-1))
            assert codes_of(produced_in(answer)) == [0], answer


def story(place: Place) -> Iterator[tuple[str, Any]]:
    """What was asked, and what the answer says."""
    for version in _EVERY_VERSION:
        client = _Client(place, version)
        for name, outcome in _story(client, f"v{version}"):
            yield f"v{version}: {name}", outcome


def _story(client: _Client, prefix: str) -> Iterator[tuple[str, Any]]:
    t, u = f"{prefix}t", f"{prefix}u"
    client.create(t, 4)
    client.create(u, 1)
    fetch = client.fetch
    yield "unknown session", fetch(1, (t, [wanted(0)]), session=77)
    yield "negative epoch", fetch(-7, (t, [wanted(0)]), session=77)
    yield "end of an unknown session", fetch(-1, (t, [wanted(0)]), session=77)
    yield "opening in place of an unknown one", fetch(0, (t, [wanted(0)]), session=77)
    client.session = 0
    yield "opening", fetch(0, (t, [wanted(0), wanted(1)]), (u, [wanted(0)]))
    yield "nothing new", fetch(1)
    yield "the epoch again", fetch(1)
    yield "an epoch too far", fetch(5)
    yield "an epoch below -1", fetch(-7)
    client.append(t, 1)
    yield "data", fetch(2)
    yield "the same data", fetch(3)
    yield "a new offset", fetch(4, (t, [wanted(1, 1)]))
    client.append(t, 0, 1)
    client.append(u, 0)
    yield "the first of several", fetch(5, max_bytes=1)
    yield "the first goes to the end", fetch(6, (t, [wanted(0, 1)]), max_bytes=1)
    yield "and so does the next", fetch(7, max_bytes=1)
    yield "more partitions", fetch(8, (t, [wanted(3), wanted(2)]), ("none", [wanted(0)]))
    yield "an error stays", fetch(9, (u, [wanted(0, 1)]), (t, [wanted(1, 2)]))
    yield "the error and nothing else", fetch(10)
    yield "forgotten", fetch(11, forgotten=(("none", [0, 1]), (t, [1, 9])))
    client.append(t, 1)
    yield "not asked any more", fetch(12)
    yield "out of range", fetch(13, (t, [wanted(2, 10)]))
    yield "in range again", fetch(14, (t, [wanted(2, 0)]))
    yield "after that", fetch(15)
    yield "twice", fetch(16, (t, [wanted(0, 9), wanted(1, 0), wanted(0, 1)]), (t, [wanted(1, 1)]))
    yield "both added and forgotten", fetch(17, (t, [wanted(1, 0)]), forgotten=((t, [1]),))
    yield "after both", fetch(18)
    other = 12 if client.version >= 13 else 13
    yield "names or ids", fetch(19, version=other)
    yield "after the other version", fetch(19)
    former = client.session
    yield "opened anew", fetch(0, (t, [wanted(1, 1)]))
    yield "the former one", fetch(20, session=former)
    yield "the new one", fetch(1)
    yield "emptied", fetch(2, forgotten=((t, [1]),))
    yield "after its end", fetch(3)
    client.session = 0
    yield "without partitions", fetch(0)
    yield "a session without partitions", fetch(1)
    client.session = 0
    yield "another", fetch(0, (u, [wanted(0, 1)]))
    yield "to its end", fetch(-1, (t, [wanted(3)]))
    yield "after that end", fetch(1)
    client.session = 0
    yield "before deletion", fetch(0, (u, [wanted(0, 1)]), (t, [wanted(0, 1)]))
    client.place.delete(u)
    yield "deleted", fetch(1)
    yield "still deleted", fetch(2)
    before = client.ids[u]
    client.create(u, 1)
    client.ids[f"{u} before"], client.ids[u] = before, client.ids[u]
    yield "created again", fetch(3)
    yield "and again", fetch(4)
