"""Bad and unusual transaction requests in all versions, with the answers of Kafka 4.1.

A story yields what it asks, the answer, and the answer expected. Where ours is another one on
purpose, `TransactionSide.differs` has both.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from cluster.model.error_codes import ErrorCode
from tests.compat.transaction_side import NOBODY, Place, TransactionSide, Who
from tests.support.topics import unique_name

Row = tuple[str, Any, Any]
Story = Callable[[TransactionSide], Iterator[Row]]

NONE: Final = ErrorCode.none
ABORTABLE: Final = ErrorCode.transaction_abortable
DENIED_TOPIC: Final = ErrorCode.topic_authorization_failed
EPOCH: Final = ErrorCode.invalid_producer_epoch
FENCED: Final = ErrorCode.producer_fenced
MAPPING: Final = ErrorCode.invalid_producer_id_mapping
ORDER: Final = ErrorCode.out_of_order_sequence_number
REQUEST: Final = ErrorCode.invalid_request
SKIPPED: Final = ErrorCode.operation_not_attempted
STATE: Final = ErrorCode.invalid_txn_state
TIMEOUT: Final = ErrorCode.invalid_transaction_timeout
UNKNOWN: Final = ErrorCode.unknown_topic_or_partition

FOREIGN: Final = Who(1 << 40, 0)
"""A producer id that nobody has."""
STATE_TOPIC: Final = "__transaction_state"
OFFSETS: Final = ("__consumer_offsets", 0)


def places_of(side: TransactionSide, count: int = 4) -> list[Place]:
    """Partitions of a new topic."""
    return side.create(unique_name("errors"), partitions=count)


# ---------------------------------------------------------------------- InitProducerId


def new_producers(side: TransactionSide) -> Iterator[Row]:
    """InitProducerId without an open transaction."""
    name, bad = unique_name("init"), (REQUEST, NOBODY)
    yield "empty id", side.init(""), bad
    for timeout_ms in (0, -1, 900_001):
        answer = side.init(name, timeout_ms=timeout_ms)
        yield f"timeout {timeout_ms}", answer, (TIMEOUT, NOBODY)
    yield "producer id without epoch", side.init(name, Who(5, -1)), bad
    yield "epoch without producer id", side.init(name, Who(-1, 5)), bad
    yield "idempotent: producer id without epoch", side.init(None, Who(5, -1)), bad
    yield "idempotent: epoch without producer id", side.init(None, Who(-1, 5)), bad
    code, who = side.init(None, Who(5, 3), timeout_ms=-5)
    yield "idempotent: continues with a new producer id", (code, who.epoch), (NONE, 0)

    first = side.start(name, timeout_ms=900_000)
    yield "first", first.epoch, 0
    yield "second", side.init(name), (NONE, first.at(1))
    yield "continues in an old epoch", side.init(name, first), (FENCED, NOBODY)
    yield "the same before version 4", side.init(name, first, version=3), (EPOCH, NOBODY)
    yield "continues in a future epoch", side.init(name, first.at(7)), (FENCED, NOBODY)
    yield "continues as another", side.init(name, FOREIGN), (FENCED, NOBODY)
    yield "continues", side.init(name, first.at(1)), (NONE, first.at(2))
    yield "continues, repeated", side.init(name, first.at(1)), (NONE, first.at(2))
    yield "continues again", side.init(name, first.at(2)), (NONE, first.at(3))
    for version in range(6):
        answer = side.init(name, version=version)
        yield f"version {version}", answer, (NONE, first.at(4 + version))
    code, who = side.init(unique_name("init"), FOREIGN)
    yield "new id, continues", (code, who.epoch, who == FOREIGN), (NONE, 0, False)


def fences(side: TransactionSide, *, init: int, is_new: bool) -> Iterator[Row]:
    """InitProducerId of a version while a transaction is open, which an older or a newer client
    has begun. The epoch is bumped once for the abort, and once for the new producer."""
    (place,) = places_of(side, 1)
    name, end = unique_name("fenced"), 5 if is_new else 3
    fenced = EPOCH if init < 4 else FENCED

    def begin(who: Who) -> Who:
        add = side.add_new if is_new else side.add
        assert add(name, who, place) == [NONE]
        return who

    def until_settled(who: Who) -> tuple[ErrorCode, Who]:
        """Kafka answers CONCURRENT_TRANSACTIONS first; ours may have waited."""
        code, now = side.init(name, who, version=init)
        if code is ErrorCode.concurrent_transactions:
            side.settle(name)
            code, now = side.init(name, who, version=init)
        return code, now

    old = begin(side.start(name))
    yield "fences", until_settled(NOBODY), (NONE, old.at(2))
    yield "old ends", side.end(name, old, version=end), (FENCED, NOBODY)
    yield "old adds", side.add(name, old, place), [FENCED]
    yield "old produces", side.produce(place, old, transactional_id=name), EPOCH
    if init < 3:
        return

    # The epoch before is remembered since transaction version 2.
    now = begin(old.at(2))
    expected = (NONE, now.at(1)) if side.transaction_version == 2 else (fenced, NOBODY)
    yield "continues", until_settled(now), expected
    yield "continues, repeated", until_settled(now), expected
    yield "next", until_settled(NOBODY), (NONE, now.at(2))
    now = begin(now.at(2))
    yield "continues in an old epoch", until_settled(now.at(-1)), (fenced, NOBODY)
    yield "which has aborted", side.describe(name)[1:3], ("CompleteAbort", now.at(1))
    now = begin(side.start(name))
    yield "continues in a future epoch", until_settled(now.at(1)), (NONE, now.at(2))
    begin(now.at(2))
    yield "continues as another", side.init(name, FOREIGN, version=init), (fenced, NOBODY)
    yield "which has not aborted", side.describe(name)[1], "Ongoing"


def timeouts(side: TransactionSide, *, is_new: bool) -> Iterator[Row]:
    """The coordinator aborts a transaction that is open for too long, in the next epoch."""
    (place,) = places_of(side, 1)
    name, end = unique_name("late"), 5 if is_new else 3
    old = side.start(name, timeout_ms=100)
    yield "begins", (side.add_new if is_new else side.add)(name, old, place), [NONE]
    side.settle(name, "CompleteAbort")
    yield "aborted", side.describe(name)[1:3], ("CompleteAbort", old.at(1))
    refused = (STATE if is_new else FENCED, NOBODY)
    yield "commits late", side.end(name, old, version=end), refused
    answer = side.end(name, old, commit=False, version=end)
    yield "aborts late", answer, (NONE, old.at(1)) if is_new else (FENCED, NOBODY)
    yield "adds late", side.add(name, old, place), [FENCED]
    yield "produces late", side.produce(place, old, transactional_id=name), EPOCH
    expected = (NONE, old.at(1)) if side.transaction_version == 2 else (FENCED, NOBODY)
    yield "continues", side.init(name, old), expected
    yield "next", side.init(name), (NONE, old.at(2))


# ---------------------------------------------------------------------- AddPartitionsToTxn


def partitions_of_clients(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """AddPartitionsToTxn of clients."""
    p0, p1, *_ = places_of(side)
    name, fenced = unique_name("add"), FENCED if version >= 2 else EPOCH
    nowhere, beyond, internal = ("nowhere", 0), (p0[0], 99), (STATE_TOPIC, 0)
    add = partial(side.add, version=version)
    who = side.start(name)
    side.start(name, who)
    yield "unknown id", add(unique_name("none"), who, p0), [MAPPING]
    yield "empty id", add("", who, p0), [REQUEST]
    yield "unknown id and topic", add(unique_name("none"), who, nowhere), [UNKNOWN]
    yield "old epoch", add(name, who, p0), [fenced]
    who = who.at(1)
    yield "future epoch", add(name, who.at(1), p0), [fenced]
    yield "foreign producer", add(name, FOREIGN, p0), [MAPPING]
    yield "no producer", add(name, NOBODY, p0), [MAPPING]
    unknown = add(name, who, p0, nowhere, beyond)
    yield "unknown topic and partition", unknown, [SKIPPED, UNKNOWN, UNKNOWN]
    yield "internal topic", add(name, who, p0, internal), [SKIPPED, DENIED_TOPIC]
    yield "offsets topic", add(name, who, OFFSETS), [DENIED_TOPIC]
    yield "nothing is open", side.describe(name)[1], "Empty"
    yield "no partitions", add(name, who), []
    yield "added", add(name, who, p0, p1), [NONE, NONE]
    yield "added again", add(name, who, p1), [NONE]
    yield "both", side.describe(name), (NONE, "Ongoing", who, [p0, p1])
    yield "old epoch while open", add(name, who.at(-1), p0), [fenced]


def partitions_of_brokers(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """AddPartitionsToTxn of brokers, for several clients, or only to verify."""
    p0, p1, *_ = places_of(side)
    name, other, none = unique_name("add"), unique_name("other"), unique_name("none")
    nowhere, internal = ("nowhere", 0), (STATE_TOPIC, 0)
    add, verify = partial(side.add_new, version=version), partial(side.verify, version=version)
    who, whose = side.start(name), side.start(other)
    for what, ask in (("add", add), ("verify", verify)):
        yield f"{what}: unknown id", ask(none, who, p0), [MAPPING]
        yield f"{what}: empty id", ask("", who, p0), [REQUEST]
        yield f"{what}: foreign producer", ask(name, FOREIGN, p0), [MAPPING]
        yield f"{what}: old epoch", ask(name, who.at(-1), p0), [FENCED]
        yield f"{what}: future epoch", ask(name, who.at(1), p0), [FENCED]
        yield f"{what}: unknown topic", ask(name, who, p0, nowhere), [SKIPPED, UNKNOWN]
    yield "verify: nothing is open", verify(name, who, p0), [ABORTABLE]
    yield "verify: internal topic", verify(name, who, internal), [ABORTABLE]
    yield "nothing is open", side.describe(name)[1], "Empty"
    yield "add", add(name, who, p0), [NONE]
    yield "verify: one of two", verify(name, who, p0, p1), [NONE, ABORTABLE]
    several = side.add_many(
        (name, who, True, (p0,)),
        (other, whose, False, (p0, p1)),
        (none, who, True, (p0,)),
        version=version,
    )
    yield "several", several, (NONE, [[NONE], [NONE, NONE], [MAPPING]])
    yield "both of the other", side.describe(other), (NONE, "Ongoing", whose, [p0, p1])
    yield "internal topic", add(name, who, internal), [NONE]


# ---------------------------------------------------------------------- EndTxn


def ends(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """EndTxn of clients that keep their epoch."""
    (place,) = places_of(side, 1)
    name, fenced = unique_name("end"), (FENCED if version >= 2 else EPOCH, NOBODY)
    end, invalid = partial(side.end_all, name, version=version), (STATE, NOBODY)
    who = side.start(name)
    unknown = side.end(unique_name("none"), who, version=version)
    yield "unknown id", unknown, (MAPPING, NOBODY)
    yield "empty id", side.end("", who, version=version), (REQUEST, NOBODY)
    yield "foreign producer", end(FOREIGN), (MAPPING, NOBODY)
    yield "no producer", end(NOBODY), (MAPPING, NOBODY)
    yield "empty commit", end(who), invalid
    yield "empty abort", end(who, commit=False), invalid
    yield "future epoch", end(who.at(1)), fenced
    for commit in (True, False):
        outcome = f"Complete{'Commit' if commit else 'Abort'}"
        yield f"{outcome}: begins", side.add(name, who, place), [NONE]
        yield f"{outcome}: old epoch", end(who.at(-1), commit=commit), fenced
        yield f"{outcome}: future epoch", end(who.at(1), commit=commit), fenced
        yield f"{outcome}: foreign", end(FOREIGN, commit=commit), (MAPPING, NOBODY)
        yield f"{outcome}: ends", end(who, commit=commit), (NONE, who)
        yield f"{outcome}: repeated", end(who, commit=commit), (NONE, who)
        yield f"{outcome}: the other result", end(who, commit=not commit), invalid
        yield f"{outcome}: state", side.describe(name), (NONE, outcome, who, [])


def ends_with_new_epochs(side: TransactionSide) -> Iterator[Row]:
    """EndTxn version 5, which bumps the epoch each time."""
    (place,) = places_of(side, 1)
    name = unique_name("end")
    end = partial(side.end_all, name)
    fenced, invalid = (FENCED, NOBODY), (STATE, NOBODY)
    who = side.start(name)
    yield "unknown id", side.end(unique_name("none"), who), (MAPPING, NOBODY)
    yield "empty id", side.end("", who), (REQUEST, NOBODY)
    yield "foreign producer", end(FOREIGN), (MAPPING, NOBODY)
    yield "no producer", end(NOBODY), (MAPPING, NOBODY)
    yield "empty commit", end(who), invalid
    yield "epoch before", end(who.at(-1)), fenced
    yield "empty abort", end(who, commit=False), (NONE, who.at(1))
    yield "empty abort, repeated", end(who, commit=False), (NONE, who.at(1))
    yield "state", side.describe(name), (NONE, "CompleteAbort", who.at(1), [])
    yield "empty abort again", end(who.at(1), commit=False), (NONE, who.at(2))
    who = who.at(2)
    yield "empty commit after an abort", end(who), invalid
    for commit in (True, False):
        outcome = f"Complete{'Commit' if commit else 'Abort'}"
        yield f"{outcome}: begins", side.add_new(name, who, place), [NONE]
        yield f"{outcome}: old epoch", end(who.at(-1), commit=commit), fenced
        yield f"{outcome}: future epoch", end(who.at(1), commit=commit), fenced
        yield f"{outcome}: foreign", end(FOREIGN, commit=commit), (MAPPING, NOBODY)
        yield f"{outcome}: ends", end(who, commit=commit), (NONE, who.at(1))
        yield f"{outcome}: repeated", end(who, commit=commit), (NONE, who.at(1))
        yield f"{outcome}: the other result", end(who, commit=not commit), invalid
        yield f"{outcome}: older", end(who.at(-1), commit=commit), fenced
        yield f"{outcome}: newer", end(who.at(2), commit=commit), fenced
        yield f"{outcome}: commits nothing", end(who.at(1)), invalid
        yield f"{outcome}: aborts nothing", end(who.at(1), commit=False), (NONE, who.at(2))
        who = who.at(2)


# ---------------------------------------------------------------------- leaders


def batches(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """Produce: batches of transactions, and others of a producer in a transaction."""
    p0, p1, p2, p3 = places_of(side)
    name, none, watched = unique_name("produce"), unique_name("none"), side.watched
    is_new = version >= 12
    absent = ABORTABLE if version >= 11 else STATE
    no_id = ErrorCode.transactional_id_authorization_failed

    def send(place: Place, whose: Who, sequence: int | None = None, **options: Any) -> ErrorCode:
        options = {"transactional_id": name, "version": version, **options}
        return side.produce(place, whose, sequence, **options)

    who = side.start(name)
    who = side.start(name, who)
    yield "unknown id", send(watched, who, transactional_id=none), MAPPING
    yield "no id", send(watched, who, transactional_id=None), no_id
    yield "empty id", send(watched, who, transactional_id=""), REQUEST
    yield "foreign producer", send(watched, FOREIGN), MAPPING
    yield "old epoch", send(watched, who.at(-1)), EPOCH
    yield "future epoch", send(watched, who.at(1)), EPOCH
    yield "producer without epoch", send(watched, who._replace(epoch=-1)), EPOCH
    yield "unknown topic", send(("nowhere", 0), who), UNKNOWN
    yield "unknown partition", send((p0[0], 99), who), UNKNOWN
    yield "nothing is open", side.describe(name)[1], "Empty"
    yield "no producer", send(p0, NOBODY, -1), NONE
    plain = send(p3, who, 0, is_transactional=False)
    yield "not in a transaction", plain, NONE
    if is_new:
        yield "not added", send(p0, who), NONE
        yield "adds", side.describe(name), (NONE, "Ongoing", who, [p0])
        yield "negative sequence", send(p1, who, -1), ErrorCode.invalid_record
        yield "first sequence", send(p1, who, 5), ORDER
        yield "both are added", side.describe(name), (NONE, "Ongoing", who, [p0, p1])
    else:
        yield "not added", send(p0, who), absent
        yield "negative sequence", send(p0, who, -1), absent
        yield "added", side.add(name, who, p1), [NONE]
        yield "first sequence", send(p1, who, 5), NONE
    side.end_all(name, who, commit=False, version=5 if is_new else 3)

    who = side.start(name)
    yield "added for", side.add(name, who, p1, p2), [NONE, NONE]
    yield "begins", send(p1, who), NONE
    yield "unknown id in a transaction", send(p1, who, transactional_id=none), NONE
    yield "no id in a transaction", send(p1, who, transactional_id=None), no_id
    yield "unknown id elsewhere", send(p2, who, 0, transactional_id=none), MAPPING
    for each in (None, name):
        plain = send(p1, who, 2, is_transactional=False, transactional_id=each)
        yield f"outside its transaction, {each and 'id'}", plain, STATE
    yield "old epoch in a transaction", send(p1, who.at(-1), 0), EPOCH
    yield "future epoch in a transaction", send(p1, who.at(1), 0), EPOCH
    yield "gap", send(p1, who, 9), ORDER
    end_offset = side.end_offset(p1)
    yield "duplicate", send(p1, who, 0), NONE
    yield "which is not appended", side.end_offset(p1), end_offset
    yield "ends", side.end_all(name, who, version=5 if is_new else 3)[0], NONE
    yield "goes on in its epoch", send(p1, who, 2), EPOCH if is_new else absent

    now = side.start(name)
    yield "old producer", send(p1, who, 2), EPOCH
    yield "old producer elsewhere", send(p3, who, 1), EPOCH
    yield "added to the next", side.add(name, now, p1), [NONE]
    yield "first sequence of the next", send(p1, now, 1), ORDER
    yield "begins the next", send(p1, now, 0), NONE
    yield "ends the next", side.end_all(name, now, version=5 if is_new else 3)[0], NONE


def markers(side: TransactionSide) -> Iterator[Row]:
    """WriteTxnMarkers of an administrator."""
    p0, p1, p2, _ = places_of(side)
    name, nowhere, beyond = unique_name("marked"), ("nowhere", 0), (p0[0], 99)
    coordinator_fenced = ErrorCode.transaction_coordinator_fenced
    who = side.start(name)
    who = side.start(name, who)
    write = side.write_markers
    yield (
        "begins",
        (side.add(name, who, p0), side.produce(p0, who, transactional_id=name)),
        (
            [NONE],
            NONE,
        ),
    )
    yield "no partition", write(who), []
    yield "unknown ones", write(who, p1, nowhere, beyond), [NONE, UNKNOWN, UNKNOWN]
    yield "old epoch", write(side.bystander.at(-1), side.watched), [EPOCH]
    no_producer = side.differs(kafka=ErrorCode.unknown_server_error, ours=REQUEST)
    yield "no producer", write(NOBODY, p2), [no_producer]
    yield "ends", (side.end_offset(p0), side.end_offset(p0, committed=True)), (1, 0)
    yield "nothing is open", write(FOREIGN, p2, coordinator_epoch=7), [NONE]
    yield "again", write(FOREIGN, p2, coordinator_epoch=7), [NONE]
    yield "both are written", side.end_offset(p2), 2
    older = write(FOREIGN.at(1), p2, coordinator_epoch=6)
    yield "old coordinator epoch", older, [coordinator_fenced]
    yield "no coordinator epoch", write(FOREIGN, p2, coordinator_epoch=-1), [coordinator_fenced]
    known = (NONE, {FOREIGN.producer_id: (0, -1, 7, -1)})
    yield "producers", side.producers(p2), known
    yield "producers of no topic", side.producers(nowhere), (UNKNOWN, {})
    yield "producers of no partition", side.producers(beyond), (UNKNOWN, {})
    yield "producers of none", side.producers((p0[0], 3)), (NONE, {})

    state = {who.producer_id: (who.epoch, 0, -1, 0)}
    yield "open", side.producers(p0), (NONE, state)
    yield "aborted", write(who, p0), [NONE]
    state = {who.producer_id: (who.epoch, 0, 0, -1)}
    yield "closed", side.producers(p0), (NONE, state)
    yield "the coordinator does not know", side.describe(name)[1], "Ongoing"
    yield "aborted in the next epoch", write(who.at(1), p0), [NONE]
    yield "fenced", side.produce(p0, who, transactional_id=name, version=11), EPOCH
    yield "the end comes nevertheless", side.end_all(name, who), (NONE, who.at(1))
    yield "and is written", (side.end_offset(p0), side.end_offset(p0, committed=True)), (4, 4)
