"""Requests about transactions in states that clients do not bring about by themselves, and about
all transactions, as `transaction_stories` has the usual ones."""

from collections.abc import Iterator
from typing import Final

from cluster.coordinator.transactions.records import transaction_key, transaction_value
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import LAST_EPOCH, StoredTransaction
from cluster.model.clocks import WallMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord
from tests.compat.transaction_side import NOBODY, Place, TransactionSide, Who
from tests.compat.transaction_stories import (
    EPOCH,
    FENCED,
    FOREIGN,
    MAPPING,
    NONE,
    OFFSETS,
    REQUEST,
    SKIPPED,
    STATE,
    UNKNOWN,
    Row,
    places_of,
)
from tests.support.group_requests import find_coordinator
from tests.support.kafka_wire import request
from tests.support.topics import unique_name
from tests.support.waiting import wait_until

WAITS: Final = ErrorCode.concurrent_transactions
LOADED: Final = ("loaded", 0)
DECIDED: Final = ("loaded", 1)
"""The partitions of the transactions that are loaded."""
_FIRST_LOADED_ID: Final = 7_000_000
BAD_PATTERN: Final = ErrorCode.invalid_regular_expression


# ---------------------------------------------------------------------- views


def views(side: TransactionSide) -> Iterator[Row]:
    """DescribeTransactions, ListTransactions, FindCoordinator."""
    (place,) = places_of(side, 1)
    word = unique_name("view")
    opened, ended = f"{word}-open", f"{word}-ended"
    who, other = side.start(opened), side.start(ended)
    side.add(opened, who, place)
    side.add(ended, other, place)
    side.end_all(ended, other)
    yield "open", side.describe(opened), (NONE, "Ongoing", who, [place])
    yield "ended", side.describe(ended), (NONE, "CompleteCommit", other.at(1), [])
    absent = ErrorCode.transactional_id_not_found
    yield "unknown", side.describe(unique_name("none")), (absent, "", Who(0, 0), [])
    yield "no id", side.describe(""), (REQUEST, "", Who(0, 0), [])

    def listed(*states: str, **filters: object) -> tuple[ErrorCode, list[str], set[str]]:
        code, unknown, found = side.listed(*states, **filters)  # type: ignore[arg-type]
        return code, unknown, {name for name in found if name.startswith(word)}

    both = {opened, ended}
    for version in range(3):
        v = {"version": version}
        yield f"{version}: all", listed(**v), (NONE, [], both)
        yield f"{version}: open", listed("Ongoing", **v), (NONE, [], {opened})
        yield f"{version}: unknown state", listed("Foo", **v), (NONE, ["Foo"], set())
        some = listed("Foo", "ongoing", "Ongoing", **v)
        yield f"{version}: states", some, (NONE, ["Foo", "ongoing"], {opened})
        yield f"{version}: other states", listed("Dead", "Empty", **v), (NONE, [], set())
        ids = (who.producer_id, FOREIGN.producer_id)
        yield f"{version}: producers", listed(producer_ids=ids, **v), (NONE, [], {opened})
        none = listed("Empty", producer_ids=ids, **v)
        yield f"{version}: producers in a state", none, (NONE, [], set())
    for duration_ms, found in ((-5, both), (0, both), (10_000_000, set[str]()), (1 << 62, set())):
        yield f"since {duration_ms}", listed(duration_ms=duration_ms), (NONE, [], found)
    for pattern, found in {
        "": both,
        word: set[str](),
        opened: {opened},
        f"{word}.*": both,
        ".*-(?i)OPEN": {opened},
        "[[:alpha:]]+-\\d+-\\p{L}{4}": {opened},
        "(?P<n>.*)-open": {opened},
    }.items():
        yield f"pattern {pattern}", listed(pattern=pattern), (NONE, [], found)
    for pattern in ("(", "*", "[a", "a{2,1}", "(?=x)", "\\1"):
        yield f"pattern {pattern}", listed(pattern=pattern), (BAD_PATTERN, [], set())

    for key_type, codes in ((1, NONE), (2, REQUEST)):
        for version in (1, 3, 4, 6):
            asked = find_coordinator("", version=version, key_type=key_type)
            answer = side.client().call(asked)
            found_one = answer.coordinators[0] if version >= 4 else answer
            yield f"find type {key_type} v{version}", ErrorCode(found_one.error_code), codes


# ---------------------------------------------------------------------- while markers are written


def endings(side: TransactionSide) -> Iterator[Row]:
    """Requests while a transaction ends, whose markers cannot be written to one partition."""
    (here,) = places_of(side, 1)
    with side.silent_partition() as silent:
        for commit in (True, False):
            for version in (3, 5):
                for what, *rest in _ending(side, here, silent, version, commit=commit):
                    yield (f"{'commit' if commit else 'abort'} v{version}: {what}", *rest)  # type: ignore[misc]


def _ending(
    side: TransactionSide, here: Place, silent: Place, version: int, *, commit: bool
) -> Iterator[Row]:
    name, state = unique_name("ending"), f"Prepare{'Commit' if commit else 'Abort'}"
    before = side.start(name)
    before = side.start(name, before)
    yield "begins", side.add(name, before, here, silent), [NONE, NONE]
    yield "writes", side.produce(here, before, transactional_id=name), NONE
    who = before if version < 5 else before.at(1)
    yield "ends", side.end(name, before, commit=commit, version=version), (NONE, who)
    wait_until(lambda: side.describe(name)[3] == [silent], "the marker of one partition")
    yield "what is left", side.describe(name), (NONE, state, who, [silent])
    yield "listed", side.listed(state, duration_ms=0)[2].get(name), state
    for result in (True, False):
        for change in (-1, 0, 1):
            what = f"{'commit' if result else 'abort'} {change}"
            code = FENCED if change else WAITS
            answer = side.end(name, who.at(change), commit=result, version=3)
            yield f"end v3: {what}", answer, (code, NOBODY)
            answer = side.end(name, who.at(change), commit=result, version=5)
            yield f"end v5: {what}", answer, (WAITS, NOBODY)
    for what, whose in (("next", NOBODY), ("continues", who), ("foreign", FOREIGN)):
        yield f"init: {what}", side.init(name, whose), (WAITS, NOBODY)
    for what, whose in (("own", who), ("old", who.at(-1)), ("foreign", FOREIGN)):
        yield f"add: {what}", side.add(name, whose, here), [WAITS]
        yield f"add v5: {what}", side.add_new(name, whose, here), [WAITS]
        yield f"add offsets: {what}", side.add_offsets(name, whose, "group"), WAITS
    yield "add: unknown topic", side.add(name, who, ("nowhere", 0)), [UNKNOWN]
    yield "verify: own", side.verify(name, who, here), [WAITS]
    yield "verify: old", side.verify(name, who.at(-1), here), [FENCED]
    yield "verify: foreign", side.verify(name, FOREIGN, here), [MAPPING]
    for each in (3, 4, 5):
        codes = side.commit_offsets(name, who, "group", {here: 1}, version=each)
        yield f"commit offsets v{each}", codes, [WAITS]
    busy = ErrorCode.not_enough_replicas
    for each, own, later in ((9, busy, EPOCH), (11, busy, EPOCH), (12, WAITS, WAITS)):
        answers = [
            side.produce(here, who.at(change), 0, transactional_id=name, version=each)
            for change in (0, -1, 1)
        ]
        yield f"produce v{each}", answers, [own, EPOCH, later]


# ---------------------------------------------------------------------- loaded transactions

_LAST, _BEYOND = LAST_EPOCH, LAST_EPOCH + 1
_STORED: Final[dict[str, tuple[int, TransactionState, Place | None, int]]] = {
    # Epoch, state, partition, timeout.
    "new": (_LAST, TransactionState.EMPTY, None, 60_000),
    "continued": (_LAST, TransactionState.EMPTY, None, 60_000),
    "open": (_LAST, TransactionState.ONGOING, LOADED, 900_000),
    "older": (_LAST, TransactionState.ONGOING, LOADED, 900_000),
    "fenced": (_LAST, TransactionState.ONGOING, LOADED, 900_000),
    "late": (_LAST, TransactionState.ONGOING, LOADED, 1),
    "beyond": (_BEYOND, TransactionState.COMPLETE_ABORT, None, 60_000),
    "decided": (3, TransactionState.PREPARE_COMMIT, DECIDED, 60_000),
    "gone": (3, TransactionState.PREPARE_ABORT, ("deleted", 0), 60_000),
}


def _loaded(name: str) -> tuple[str, Who]:
    """The transactional id of that name, and its producer."""
    number = list(_STORED).index(name)
    return f"loaded-{name}", Who(_FIRST_LOADED_ID + number, _STORED[name][0])


def stored_transactions(now_ms: int) -> list[NewRecord]:
    """Records of `__transaction_state`, as we encode them."""
    records = []
    for name, (epoch, state, place, timeout_ms) in _STORED.items():
        transactional_id, who = _loaded(name)
        stored = StoredTransaction(
            who.producer_id,
            epoch,
            timeout_ms,
            state,
            frozenset([TopicPartition(*place)] if place else ()),
            last_update_ms=WallMs(now_ms),
            start_ms=WallMs(-1 if state is TransactionState.EMPTY else now_ms),
        )
        key, value = transaction_key(transactional_id), transaction_value(stored)
        records.append(NewRecord(value, key, now_ms))
    return records


def loaded_ones(side: TransactionSide) -> Iterator[Row]:
    """Transactions whose records were loaded: epochs end, and decided outcomes are carried out."""
    name, who = _loaded("decided")
    side.settle(name, "CompleteCommit")
    yield "decided", side.describe(name), (NONE, "CompleteCommit", who, [])
    name, who = _loaded("gone")
    side.settle(name, "CompleteAbort")
    yield "gone", side.describe(name), (NONE, "CompleteAbort", who, [])

    name, who = _loaded("new")
    code, now = side.init(name)
    yield "new: starts", (code, now.epoch, now == who), (NONE, 0, False)
    yield "new: the old one continues", side.init(name, who), (FENCED, NOBODY)
    yield "new: the old one aborts", side.end(name, who, commit=False), (FENCED, NOBODY)
    yield "new: the old one adds", side.add(name, who, LOADED), [MAPPING]
    yield "new: next", side.init(name), (NONE, now.at(1))

    name, who = _loaded("continued")
    code, now = side.init(name, who)
    yield "continued", (code, now.epoch, now == who), (NONE, 0, False)
    yield "continued, repeated", side.init(name, who), (NONE, now)
    yield "continued again", side.init(name, now), (NONE, now.at(1))
    yield "continued, repeated too late", side.init(name, who), (FENCED, NOBODY)

    name, who = _loaded("open")
    yield "open", side.describe(name), (NONE, "Ongoing", who, [LOADED])
    yield "open: old epoch", side.end(name, who.at(-1)), (FENCED, NOBODY)
    code, now = side.end_all(name, who)
    yield "open: ends", (code, now.epoch, now == who), (NONE, 0, False)
    yield "open: state", side.describe(name), (NONE, "CompleteCommit", now, [])
    yield "open: repeated", side.end(name, who), (NONE, now)
    yield "open: the other result", side.end(name, who, commit=False), (STATE, NOBODY)
    yield "open: old id adds", side.add(name, who, LOADED), [MAPPING]
    yield "open: new id adds", side.add_new(name, now, LOADED), [NONE]
    yield "open: old id ends", side.end(name, who), (MAPPING, NOBODY)
    yield "open: old id continues", side.init(name, who), (FENCED, NOBODY)
    yield "open: ends next", side.end_all(name, now), (NONE, now.at(1))

    name, who = _loaded("older")
    yield "older: ends", side.end_all(name, who, version=3), (NONE, who)
    yield "older: adds", side.add(name, who, LOADED), [NONE]
    yield "older: ends again", side.end_all(name, who, version=3), (NONE, who)

    # Kafka gives no new producer id where it aborts by itself: the next producer gets it, and the
    # old one cannot continue.
    name, who = _loaded("fenced")
    now = side.start(name)
    epoch = side.differs(kafka=0, ours=1)
    yield "fenced", (now.epoch, now.producer_id == who.producer_id), (epoch, False)
    yield "fenced: continues", side.init(name, who), (FENCED, NOBODY)
    yield "fenced: adds", side.add(name, who, LOADED), [MAPPING]

    name, who = _loaded("late")
    side.settle(name, "CompleteAbort")
    now = side.describe(name)[2]
    epoch, is_same = side.differs(kafka=(_BEYOND, True), ours=(0, False))
    yield "late", (now.epoch, now.producer_id == who.producer_id), (epoch, is_same)
    yield "late: commits", side.end(name, who), (STATE, NOBODY)
    yield "late: aborts", side.end(name, who, commit=False), (NONE, now)
    failed = (ErrorCode.unknown_server_error, NOBODY)
    yield "late: continues", side.init(name, who), side.differs(kafka=failed, ours=(NONE, now))
    code, new = side.init(name)
    yield "late: next", (code, new.producer_id == who.producer_id), (NONE, False)

    name, who = _loaded("beyond")
    added = side.differs(kafka=NONE, ours=FENCED)  # Kafka could not bump the epoch at the end
    yield "beyond: adds", side.add(name, who, LOADED), [added]


# ---------------------------------------------------------------------- rights

_NO_CLUSTER: Final = ErrorCode.cluster_authorization_failed
_NO_GROUP: Final = ErrorCode.group_authorization_failed
_NO_ID: Final = ErrorCode.transactional_id_authorization_failed
_NO_TOPIC: Final = ErrorCode.topic_authorization_failed
_DENIED_HOST: Final = "127.0.0.2"
_ALL, _DENY, _ALLOW, _LITERAL = 2, 2, 3, 3
_DENIED: Final = {2: "denied", 3: "denied", 4: "kafka-cluster", 5: "denied"}
"""By type: topic, group, cluster, transactional id."""


def deny(side: TransactionSide) -> None:
    """Deny everything to clients from one address: a topic, a group, a transactional id and the
    cluster."""
    rules = [
        {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": _LITERAL,
            "principal": "User:*",
            "host": host,
            "operation": _ALL,
            "permission_type": permission,
        }
        for kind, name in _DENIED.items()
        for host, permission in (("*", _ALLOW), (_DENIED_HOST, _DENY))
    ]
    answer = side.client().call(request(ApiKey.CREATE_ACLS, 3, creations=rules))
    assert all(each.error_code == NONE for each in answer.results), answer


def denials(side: TransactionSide) -> Iterator[Row]:
    """Requests without the rights for them."""
    (place,) = places_of(side, 1)
    (hidden,) = side.create("denied")
    name, group = unique_name("rights"), unique_name("group")
    who, whose = side.start(name), side.start("denied")
    side.add(name, who, place, hidden)
    side.add("denied", whose, place)
    with side.from_host(_DENIED_HOST) as denied:
        for version in (3, 5):
            find = find_coordinator("denied", version=version, key_type=1)
            answer = denied.client().call(find)
            found = answer.coordinators[0] if version >= 4 else answer
            yield f"find v{version}", ErrorCode(found.error_code), _NO_ID
        yield "init", denied.init("denied"), (_NO_ID, NOBODY)
        yield "init, bad timeout", denied.init("denied", timeout_ms=0), (_NO_ID, NOBODY)
        yield "init, idempotent", denied.init(None)[0], NONE  # it may write to some topic
        yield "add", denied.add("denied", whose, place), [_NO_ID]
        yield "add a topic", denied.add(name, who, place, hidden), [SKIPPED, _NO_TOPIC]
        yield "add of brokers", denied.add_new(name, who, place), [_NO_CLUSTER]
        yield "verify", denied.verify(name, who, place), [_NO_CLUSTER]
        yield "add offsets", denied.add_offsets("denied", whose, group), _NO_ID
        yield "add offsets of a group", denied.add_offsets(name, who, "denied"), _NO_GROUP
        yield "end", denied.end("denied", whose), (_NO_ID, NOBODY)
        commit = denied.commit_offsets
        yield "commit", commit("denied", whose, group, {place: 1}), [_NO_ID]
        yield "commit of a group", commit(name, who, "denied", {place: 1}), [_NO_GROUP]
        yield (
            "commit for a topic",
            commit(name, who, group, {place: 1, hidden: 1}),
            [
                NONE,
                _NO_TOPIC,
            ],
        )
        send = denied.produce
        yield "produce", send(place, whose, transactional_id="denied"), _NO_ID
        yield "produce to a topic", send(hidden, who, transactional_id=name), _NO_TOPIC
        yield "markers", denied.write_markers(who, place), [_NO_CLUSTER]
        yield "describe", denied.describe("denied"), (_NO_ID, "", Who(0, 0), [])
        visible = sorted([place, OFFSETS])
        yield "describe topics", denied.describe(name), (NONE, "Ongoing", who, visible)
        listed = set(denied.listed()[2]) & {name, "denied"}
        yield "list", listed, {name}
        yield "producers", denied.producers(hidden), (_NO_TOPIC, {})
    yield "nothing was appended", (side.end_offset(place), side.end_offset(hidden)), (0, 0)
    yield "nothing has ended", side.describe("denied")[1:3], ("Ongoing", whose)
