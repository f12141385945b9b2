"""Bad and unusual requests about offsets that are committed in transactions, as
`transaction_stories` has those about records."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from cluster.model.error_codes import ErrorCode
from tests.compat.transaction_side import NOBODY, Place, TransactionSide, Who
from tests.compat.transaction_stories import (
    ABORTABLE,
    EPOCH,
    FENCED,
    FOREIGN,
    MAPPING,
    NONE,
    OFFSETS,
    REQUEST,
    STATE,
    UNKNOWN,
    Row,
    places_of,
)
from tests.support.group_requests import fetch_offsets, fetched_in, join_group, sync_group
from tests.support.group_stage import subscription
from tests.support.topics import unique_name
from tests.support.waiting import wait_until

NO_GROUP = ErrorCode.invalid_group_id
NO_MEMBER = ErrorCode.unknown_member_id
OLD_GENERATION = ErrorCode.illegal_generation
TOO_LARGE = ErrorCode.offset_metadata_too_large


def added_offsets(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """AddOffsetsToTxn."""
    name, group = unique_name("offsets"), unique_name("group")
    fenced = FENCED if version >= 2 else EPOCH
    add = partial(side.add_offsets, version=version)
    who = side.start(name)
    yield "unknown id", add(unique_name("none"), who, group), MAPPING
    yield "empty id", add("", who, group), REQUEST
    yield "foreign producer", add(name, FOREIGN, group), MAPPING
    yield "old epoch", add(name, who.at(-1), group), fenced
    yield "future epoch", add(name, who.at(1), group), fenced
    yield "nothing is open", side.describe(name)[1], "Empty"
    yield "empty group", add(name, who, ""), NONE
    yield "group", add(name, who, group), NONE
    yield "again", add(name, who, group), NONE
    yield "another group", add(name, who, unique_name("group")), NONE
    yield "one partition", side.describe(name), (NONE, "Ongoing", who, [OFFSETS])


def member_of(side: TransactionSide, group: str) -> dict[str, Any]:
    """A classic group with one member: how it commits offsets."""
    client, protocols = side.groups(), {"range": subscription("topic")}
    joined = client.call(join_group(group, protocols=protocols))
    joined = client.call(join_group(group, joined.member_id, protocols=protocols))
    synced = client.call(sync_group(group, joined.member_id, joined.generation_id))
    assert synced.error_code == NONE
    return {"member": joined.member_id, "generation": joined.generation_id}


def committed(side: TransactionSide, group: str, *places: Place) -> list[int]:
    """OffsetFetch, which leaves out what is not committed."""
    code, found = fetched_in(side.groups().call(fetch_offsets(group, places, version=8)))
    assert code == NONE
    return [found[each][0] for each in places]


def committed_offsets(side: TransactionSide, *, version: int) -> Iterator[Row]:
    """TxnOffsetCommit."""
    p0, p1, p2, _ = places_of(side)
    name, none = unique_name("commit"), unique_name("none")
    group, other, joined = (unique_name(each) for each in ("group", "other", "joined"))
    is_new, nowhere, beyond = version >= 5, ("nowhere", 0), (p0[0], 99)
    absent = ABORTABLE if version >= 4 else STATE
    member = member_of(side, joined)

    def commit(
        whose: Who,
        where: str = group,
        offsets: Mapping[Place, int] | None = None,
        *,
        named: str = name,
        **options: Any,
    ) -> list[ErrorCode]:
        offsets = {p0: 5} if offsets is None else offsets
        return side.commit_offsets(named, whose, where, offsets, version=version, **options)

    who = side.start(name)
    who = side.start(name, who)
    yield "unknown id", commit(who, named=none), [MAPPING]
    yield "empty id", commit(who, named=""), [REQUEST]
    yield "empty group", commit(who, ""), [NO_GROUP]
    yield "foreign producer", commit(FOREIGN), [MAPPING]
    yield "no producer", commit(NOBODY), [MAPPING]
    yield "old epoch", commit(who.at(-1)), [EPOCH]
    yield "future epoch", commit(who.at(1)), [EPOCH]
    yield "nothing is open", side.describe(name)[1], "Empty"
    if is_new:
        yield "not added", commit(who), [NONE]
        yield "adds", side.describe(name), (NONE, "Ongoing", who, [OFFSETS])
        yield "aborts", side.end_all(name, who, commit=False), (NONE, who.at(1))
        yield "nothing is committed", committed(side, group, p0), [-1]
        who = who.at(1)
    else:
        yield "not added", commit(who), [absent]
        yield "added", side.add_offsets(name, who, group), NONE
    yield "group", commit(who, group, {p0: 5, p1: 6}), [NONE, NONE]
    unknown = commit(who, group, {p2: 7, nowhere: 1, beyond: 1})
    yield "unknown topic and partition", unknown, [NONE, UNKNOWN, UNKNOWN]
    yield "unknown topic only", commit(who, group, {nowhere: 1}), [UNKNOWN]
    yield "nothing", commit(who, group, {}), []
    yield "negative offset", commit(who, other, {p1: -2}), [NONE]
    yield "long metadata", commit(who, group, metadata="x" * 4_097), [TOO_LARGE]
    yield "no metadata", commit(who, group, metadata=None), [NONE]
    yield "a group that was not added", commit(who, other), [NONE]
    yield "a group with a member", commit(who, joined), [NONE]
    yield "old epoch in a transaction", commit(who.at(-1)), [EPOCH]
    yield "future epoch in a transaction", commit(who.at(1)), [EPOCH]
    yield "unknown id in a transaction", commit(who, named=none), [NONE]
    yield "empty id in a transaction", commit(who, named=""), [NONE]
    if version >= 3:
        new = unique_name("new")
        yield "member of no group", commit(who, new, member="m"), [NONE]
        yield "generation of no group", commit(who, new, generation=1), [NO_MEMBER]
        yield "both of no group", commit(who, new, member="m", generation=1), [NO_MEMBER]
        yield "member", commit(who, joined, **member), [NONE]
        later = {**member, "generation": 9}
        yield "another generation", commit(who, joined, **later), [OLD_GENERATION]
        yield "another member", commit(who, joined, **{**member, "member": "m"}), [NO_MEMBER]
        yield "no member", commit(who, joined, **{**member, "member": ""}), [NO_MEMBER]
        yield "no generation", commit(who, joined, member=member["member"]), [OLD_GENERATION]
        yield "unknown instance", commit(who, joined, **member, instance="i"), [NO_MEMBER]
    yield "pending", committed(side, group, p0, p1), [-1, -1]
    yield "ends", side.end_all(name, who, version=5 if is_new else 3)[0], NONE
    wait_until(lambda: committed(side, group, p0) == [5], "the offsets of a transaction")
    yield "committed", committed(side, group, p0, p1, p2), [5, 6, 7]
    yield "committed in the others", committed(side, other, p0, p1), [5, -2]
    yield "committed by the member", committed(side, joined, p0), [5]
    yield "goes on in its epoch", commit(who), [EPOCH if is_new else absent]
