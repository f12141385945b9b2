"""Judges a history of transactions from outside: what clients did and saw, and the logs. Pure.

In Adya's terms, as Jepsen applies them to logs:

- G1a: a consumer with `read_committed` got a record of an aborted transaction.
- G1b: it got a record of a transaction before the transaction had ended in the partition.
- G0 and G1c: transactions that follow each other, by the order of their writes (G0) or also because
  one has read what another has written (G1c), follow each other in a circle. Kafka orders writes
  of one transactional id only: those of different ids interleave freely, and so may differ in their
  order from partition to partition. So writes of different ids are no edges here.

Beside these: no commit is lost or torn, no record is written twice, no transaction has records
after its end or no end, and each input of a copier has one effect.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cluster.model.ids import TopicPartition
from tests.simulation.transactions.copying import COPIES_MAX, copies_of
from tests.simulation.transactions.ledger import Delivery, Ledger, Outcome, Transaction
from tests.simulation.transactions.reading import LogRecord


@dataclass(frozen=True)
class Copied:
    """A group of copiers: a record of its sources has one effect if the committed offset has
    passed it, else none."""

    transactional_ids: frozenset[str]
    offsets: Mapping[TopicPartition, int]
    """The committed offsets of the group."""


@dataclass(frozen=True)
class Observed:
    """All that is known at the end."""

    ledger: Ledger
    logs: Mapping[TopicPartition, Sequence[LogRecord]]
    """Every partition that transactions write to."""
    copied: Sequence[Copied] = ()


class Anomaly(AssertionError):
    """Something that transactions exclude."""


class _Ended(NamedTuple):
    marker_offset: int
    is_commit: bool


_Ends = Mapping[Transaction, Mapping[TopicPartition, _Ended]]
"""How the transactions that have records in a partition ended there."""


def check(observed: Observed) -> None:
    """Raise Anomaly for the first one that is found."""
    ends = _ends(observed)
    _check_outcomes(observed, ends)
    for (consumer, partition), deliveries in observed.ledger.delivered.items():
        _check_deliveries(consumer, partition, deliveries, observed, ends)
    for copied in observed.copied:
        _check_copied(copied, observed, ends)
    _check_order(observed, ends)


def deliverable(log: Iterable[LogRecord]) -> list[LogRecord]:
    """The records without those of aborted or open transactions, in their order."""
    found: list[LogRecord] = []
    is_open: dict[int, list[LogRecord]] = defaultdict(list)
    for record in log:
        if record.is_commit is not None:
            ended = is_open.pop(record.producer_id, [])
            found += ended if record.is_commit else []
        elif record.is_transactional:
            is_open[record.producer_id].append(record)
        else:
            found.append(record)
    return sorted(found, key=lambda record: record.offset)


def _ends(observed: Observed) -> _Ends:
    ends: dict[Transaction, dict[TopicPartition, _Ended]] = defaultdict(dict)
    writers = observed.ledger.writers
    for partition, log in observed.logs.items():
        is_open: dict[int, set[Transaction]] = defaultdict(set)
        seen: set[bytes] = set()
        for record in log:
            if record.is_commit is not None:
                ended = is_open.pop(record.producer_id, set())
                if len(ended) > 1:
                    names = ", ".join(map(str, ended))
                    raise Anomaly(f"{partition}: the marker at {record.offset} ends {names}")
                for transaction in ended:
                    if partition in ends[transaction]:
                        raise Anomaly(
                            f"{partition}: {transaction} has records after its end at"
                            f" {ends[transaction][partition].marker_offset}"
                        )
                    ends[transaction][partition] = _Ended(record.offset, record.is_commit)
                continue
            if record.value in seen:
                raise Anomaly(f"{partition}: {record.value!r} is there twice")
            seen.add(record.value)
            if record.is_transactional:
                is_open[record.producer_id].add(writers[record.value])
        for left in is_open.values():
            raise Anomaly(f"{partition}: {', '.join(map(str, left))} does not end")
    return ends


def _check_outcomes(observed: Observed, ends: _Ends) -> None:
    """A transaction takes place as a whole, and only if its client has asked for that."""
    found: dict[Transaction, dict[TopicPartition, list[bytes]]] = defaultdict(dict)
    writers = observed.ledger.writers
    for partition, log in observed.logs.items():
        for record in log:
            if record.value in writers:
                values = found[writers[record.value]].setdefault(partition, [])
                values.append(record.value)
    for transaction in observed.ledger.transactions:
        outcomes = {ended.is_commit for ended in ends.get(transaction, {}).values()}
        if len(outcomes) > 1:
            raise Anomaly(f"torn: {transaction} ended as {dict(ends[transaction])}")
        is_committed = outcomes == {True}
        if is_committed and transaction.outcome in (Outcome.OPEN, Outcome.ABORTED):
            raise Anomaly(f"G1a: {transaction} is committed")
        if transaction.outcome is Outcome.COMMITTED and transaction.sent and not is_committed:
            raise Anomaly(f"lost: {transaction} is not committed")
        if is_committed and found[transaction] != transaction.sent:
            raise Anomaly(
                f"torn: {transaction} has sent {dict(transaction.sent)},"
                f" and {found[transaction]} is there"
            )


def _check_deliveries(
    consumer: str,
    partition: TopicPartition,
    deliveries: Sequence[Delivery],
    observed: Observed,
    ends: _Ends,
) -> None:
    for delivery in deliveries:
        writer = observed.ledger.writers.get(delivery.value)
        if writer is None:
            continue
        ended = ends.get(writer, {}).get(partition)
        if ended is None or not ended.is_commit:
            raise Anomaly(f"G1a: {consumer} got {delivery} of {partition}, of {writer}")
        if ended.marker_offset >= delivery.high_watermark:
            raise Anomaly(
                f"G1b: {consumer} got {delivery} of {partition}, of {writer},"
                f" which ended at {ended.marker_offset}"
            )
    expected = [(each.offset, each.value) for each in deliverable(observed.logs[partition])]
    got = [(each.offset, each.value) for each in deliveries]
    for one, other in zip(got, expected, strict=False):
        if one != other:
            raise Anomaly(f"{partition}: {consumer} got {one}, where {other} comes next")
    if len(got) > len(expected):
        raise Anomaly(f"{partition}: {consumer} got {got[len(expected)]}, which is not there")


def _check_copied(copied: Copied, observed: Observed, ends: _Ends) -> None:
    effects: dict[bytes, list[bytes]] = defaultdict(list)
    for transaction in observed.ledger.transactions:
        ended = ends.get(transaction, {})
        is_committed = bool(ended) and all(each.is_commit for each in ended.values())
        if is_committed and transaction.transactional_id in copied.transactional_ids:
            for value, source in transaction.sources.items():
                effects[source].append(value)
    for partition, offset in copied.offsets.items():
        for record in deliverable(observed.logs[partition]):
            count = int(record.offset < offset and copies_of(record.value) < COPIES_MAX)
            made = effects.get(record.value, [])
            if len(made) != count:
                raise Anomaly(
                    f"{partition}: {record.value!r} at {record.offset} has the effects {made} of"
                    f" {sorted(copied.transactional_ids)}, whose committed offset is {offset}"
                )


# -- circles ---------------------------------------------------------------------------------------


class _Edge(NamedTuple):
    later: Transaction
    why: str
    is_read: bool = False


_Graph = dict[Transaction, list[_Edge]]


def _check_order(observed: Observed, ends: _Ends) -> None:
    graph = _graph(observed, ends)
    circle = _circle(graph)
    if circle:
        kind = "G1c" if any(edge.is_read for _, edge in circle) else "G0"
        text = "; ".join(f"{first} {edge.why} {edge.later}" for first, edge in circle)
        raise Anomaly(f"{kind}: {text}")


def _graph(observed: Observed, ends: _Ends) -> _Graph:
    graph: _Graph = defaultdict(list)
    writers = observed.ledger.writers
    last_of: dict[str, Transaction] = {}
    for transaction in observed.ledger.transactions:
        before = last_of.get(transaction.client)
        if before is not None:
            graph[before].append(_Edge(transaction, "was begun before"))
        last_of[transaction.client] = transaction
        for partition, values in transaction.read.items():
            for value in values:
                writer = writers.get(value)
                if writer is not None and partition in ends.get(writer, {}):
                    graph[writer].append(_Edge(transaction, "was read by", is_read=True))
    for partition, log in observed.logs.items():
        last_writer: dict[str, Transaction] = {}
        for record in log:
            writer = writers.get(record.value)
            if writer is None:
                continue
            before = last_writer.get(writer.transactional_id)
            if before is not None and before is not writer:
                graph[before].append(_Edge(writer, f"wrote to {partition} before"))
            last_writer[writer.transactional_id] = writer
    return graph


def _circle(graph: _Graph) -> list[tuple[Transaction, _Edge]]:
    """A circle of edges, each with the transaction that it leaves; empty if there is none."""
    done: set[Transaction] = set()
    for start in list(graph):
        if start in done:
            continue
        path: list[tuple[Transaction, Iterator[_Edge]]] = [(start, iter(graph.get(start, ())))]
        taken: list[tuple[Transaction, _Edge]] = []
        on_path = {start}
        while path:
            transaction, edges = path[-1]
            edge = next(edges, None)
            if edge is None:
                path.pop()
                on_path.discard(transaction)
                done.add(transaction)
                if taken:
                    taken.pop()
            elif edge.later in on_path:
                circle = [*taken, (transaction, edge)]
                first = next(n for n, (each, _) in enumerate(circle) if each is edge.later)
                return circle[first:]
            elif edge.later not in done:
                taken.append((transaction, edge))
                on_path.add(edge.later)
                path.append((edge.later, iter(graph.get(edge.later, ()))))
    return []
