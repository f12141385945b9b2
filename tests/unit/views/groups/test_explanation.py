"""`groups explain`: what is printed, costs, advice, the object for scripts; from whole stories."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cluster.coordinator.groups.history.explanation import (
    ExplainAnswer,
    FormerCoordinator,
    pack_answer,
    read_answer,
)
from cluster.coordinator.groups.history.rebalances import (
    Cause,
    CauseKind,
    Rebalance,
    SlowMember,
    WhoseMember,
)
from cluster.coordinator.groups.views.queries import ExplainGroup
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import ErrorCode
from cluster.views.explained_lines import WIDTH
from cluster.views.groups.advice import advice
from cluster.views.groups.explanation_json import explanation_object
from cluster.views.groups.explanation_text import explanation_text
from cluster.views.groups.find_rebalances import why_nothing
from cluster.views.groups.known_rebalances import CostKind, KnownGroup, costs, merged
from cluster.views.groups.outages import Outage, outages
from cluster.views.groups.sentence import brief_text, group_sentence
from tests.support.consumer_stage import ConsumerStage
from tests.support.group_stage import DELAY_MS, GROUP, WALL_MS, GroupStage

Story = Callable[[GroupStage], Any]


def answer(stage: GroupStage, *former: FormerCoordinator) -> ExplainAnswer:
    group = stage.ask(ExplainGroup(GROUP))
    assert group is not None
    now = stage.now
    return ExplainAnswer(
        ErrorCode.none, 1, now.monotonic_ms, now.wall_ms, WALL_MS + 1_000, group, former
    )


def known(stage: GroupStage, *former: FormerCoordinator) -> KnownGroup:
    found = merged(GROUP, {1: answer(stage, *former)}, {1: "127.0.0.1:9093"})
    assert found is not None
    return found


def two_of(stage: GroupStage, first: str = "billing", second: str = "audit") -> list[str]:
    """A stable group of two clients."""
    joins = [stage.join_new(client=first), stage.join_new(client=second)]
    stage.pass_time(2 * DELAY_MS)
    stage.assign(joins)
    stage.pass_time(1_000)
    return [member_id for member_id, _ in joins]


def beats(stage: GroupStage, member_id: str, duration_ms: int, generation: int = 1) -> None:
    """Time passes in which one member sends heartbeats."""
    for _ in range(duration_ms // 1_000):
        stage.heartbeat(member_id, generation)
        stage.pass_time(1_000)


def starts(stage: GroupStage) -> None:
    two_of(stage)


def misses_a_poll(stage: GroupStage) -> None:
    """One member goes on sending heartbeats, but does not join again."""
    first, second = two_of(stage)
    joins = [stage.join_new(client="third", session_ms=6_000)]
    joins.append((first, stage.join(first)))
    beats(stage, second, 60_000)
    stage.assign(joins)


def waits_for_a_poll(stage: GroupStage) -> None:
    first, second = two_of(stage)
    stage.join_new(client="third")
    stage.join(first)
    beats(stage, second, 12_000)


def waits_for_the_dead(stage: GroupStage) -> None:
    first, _ = two_of(stage)
    stage.join_new(client="third")
    stage.join(first)
    stage.pass_time(7_000)


def waits_for_the_leader(stage: GroupStage) -> None:
    first, second = two_of(stage)
    stage.leave(second)
    stage.join(first)
    stage.pass_time(2_000)


def dies(stage: GroupStage) -> None:
    first, second = two_of(stage)
    beats(stage, first, 10_000)
    assert second not in [each.who.member_id for each in known(stage).group.members]
    stage.assign([(first, stage.join(first))])


def dies_in_a_rebalance(stage: GroupStage) -> None:
    first, _ = two_of(stage)
    joins = [stage.join_new(client="third")]
    joins.append((first, stage.join(first)))
    stage.pass_time(10_000)
    stage.assign(joins)


def is_late(stage: GroupStage) -> None:
    first, second = two_of(stage)
    joins = [stage.join_new(client="third")]
    joins.append((first, stage.join(first)))
    beats(stage, second, 20_000)
    joins.append((second, stage.join(second)))
    stage.assign(joins)


def leaves_and_comes_back(stage: GroupStage) -> None:
    first, second = two_of(stage)
    stage.leave(second)
    stage.assign([(first, stage.join(first))])
    stage.pass_time(2_000)
    joins = [stage.join_new(client="audit"), (first, stage.join(first))]
    stage.assign(joins)


def joins_one_by_one(stage: GroupStage) -> None:
    joins = [stage.join_new(client="c0")]
    stage.pass_time(3 * DELAY_MS)
    stage.assign(joins)
    members = [joins[0][0]]
    for number in range(1, 6):
        joins = [stage.join_new(client=f"c{number}")]
        joins += [(each, stage.join(each)) for each in members]
        stage.assign(joins)
        members.append(joins[0][0])
        stage.pass_time(1_000)


def cannot_store(stage: GroupStage) -> None:
    (member_id,) = stage.completing()
    stage.holds_appends = True
    stage.sync(member_id, 1, {})
    stage.settle(ErrorCode.not_enough_replicas)


def only_commits(stage: GroupStage) -> None:
    stage.commit()


STORIES: list[tuple[Story, list[str], list[str]]] = [
    (
        starts,
        [
            "Group 'orders-readers' (classic): Stable for 1.0 s, generation 1, 2 members, assignor",
            "Coordinator: broker 1 (127.0.0.1:9093), since 2023-11-14 22:13:21",
            "Time in each state there: PreparingRebalance 86 % (6.0 s), Stable 14 % (1.0 s)",
            "CLIENT   MEMBER  HOST       NOW",
            "1 rebalance since 2023-11-14 22:13:21 ",
            "generation 0 -> 1 in 6.0 s, 0 -> 2 members",
            "because    client billing at 127.0.0.1 (member id-1) joined",
            "joining    6.0 s, of it 6.0 s for group.initial.rebalance.delay.ms",
        ],
        ["waited 6.0 s (once) for others because of the brokers' group.initial.rebalance.delay.ms"],
    ),
    (
        misses_a_poll,
        [
            "generation 1 -> 2 in 1 min 00 s, 2 -> 2 members",
            "+1 min 00 s client audit at 127.0.0.1 (member id-2) did not join again within the"
            " rebalance timeout (max.poll.interval.ms=60000) and was removed",
            "joining    1 min 00 s, of it 1 min 00 s for client audit at 127.0.0.1 (member id-2),"
            " which did not join",
        ],
        [
            "Client audit at 127.0.0.1 did not poll within max.poll.interval.ms=60000 (once), and"
            " the group waited 1 min 00 s for it: raise max.poll.interval.ms"
        ],
    ),
    (
        waits_for_a_poll,
        [
            "PreparingRebalance for 12.0 s",
            "after generation 1, running for 12.0 s",
            "waiting    for 12.0 s for client audit at 127.0.0.1 (member id-2), for 48.0 s more at"
            " most (rebalance timeout 1 min 00 s)",
            "awaited, heard 1.0 s ago",
            "has joined",
        ],
        [
            "Client audit at 127.0.0.1 sends heartbeats, but has not polled",
            "in 48.0 s at the latest",
        ],
    ),
    (
        waits_for_the_dead,
        ["no heartbeat either, its session ends in 2.0 s"],
        ["it was killed, paused or cut off. The group goes on without it in 2.0 s"],
    ),
    (
        waits_for_the_leader,
        ["waiting    for 2.0 s for the assignment by client billing at 127.0.0.1 (member"],
        [],
    ),
    (
        dies,
        [
            "because    client audit at 127.0.0.1 (member id-2) sent no heartbeat within"
            " session.timeout.ms=10000"
        ],
        ["Client audit at 127.0.0.1 sent no heartbeat within session.timeout.ms=10000 (once)"],
    ),
    (
        dies_in_a_rebalance,
        ["for client audit at 127.0.0.1 (member id-2), which had not joined when it went"],
        ["Client audit at 127.0.0.1 sent no heartbeat"],
    ),
    (
        is_late,
        [
            "joining    20.0 s, of it 20.0 s for client audit at 127.0.0.1 (member id-2),"
            " which joined"
        ],
        ["Client audit at 127.0.0.1 joined last (once) and made the others wait 20.0 s"],
    ),
    (
        leaves_and_comes_back,
        ["client audit at 127.0.0.1 (member id-2) left"],
        ["Client audit at 127.0.0.1 left and came back (once)", "group.instance.id"],
    ),
    (
        joins_one_by_one,
        ["6 rebalances since 2023-11-14 22:13:21, the last 5 shown"],
        [
            "Members joined one after the other, each with a rebalance of its own (5 times)",
            "The group rebalanced 6 times within 10 min 00 s, and by range every member stops",
        ],
    ),
    (
        cannot_store,
        [
            "client client at 127.0.0.1 (member id-1) assigned, and that could not be stored:"
            ' "COORDINATOR_NOT_AVAILABLE"',
            "ended      the next event began another rebalance",
        ],
        ["An assignment could not be stored: look at the in-sync replicas of __consumer_offsets"],
    ),
    (only_commits, ["It has no members.", "No rebalances since 2023"], ["nothing to explain"]),
]


@pytest.mark.parametrize(
    ("story", "said", "advised"), STORIES, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_story_is_told_with_its_advice(story: Story, said: list[str], advised: list[str]) -> None:
    stage = GroupStage().loaded()
    story(stage)
    found = known(stage)
    text = explanation_text(found, 5)
    assert max(map(len, text.splitlines())) <= WIDTH
    unwrapped = " ".join(text.split())
    for each in said:
        assert " ".join(each.split()) in unwrapped, text
    brief = brief_text(found)
    assert max(map(len, brief.splitlines())) <= WIDTH
    sentence = group_sentence(found)
    assert " ".join(brief.split()).startswith(f"{sentence} What to do - {advice(found)[0]}")
    assert unwrapped.startswith(sentence)
    sentences = "\n".join(advice(found))
    for each in advised:
        assert each in sentences, sentences
    told = json.loads(json.dumps(explanation_object(found, 5)))
    assert (told["group"], told["state"]) == (GROUP, found.group.state)
    assert told["advice"] == advice(found)
    assert [each["started"] for each in told["rebalances"]] == [
        each.started_wall_ms for _, each in found.rebalances[-5:]
    ]


@pytest.mark.parametrize(
    ("story", "sentence"),
    [
        (
            starts,
            "has been stable for 1.0 s with 2 members; its last rebalance took 6.0 s and began"
            " 7.0 s ago because client billing at 127.0.0.1 (member id-1) joined (and 1 more"
            " cause).",
        ),
        (
            waits_for_a_poll,
            "has been rebalancing for 12.0 s because client third at 127.0.0.1 (member id-3)"
            " joined; it waits for client audit at 127.0.0.1 (member id-2), for 48.0 s more at most"
            " (rebalance timeout 1 min 00 s).",
        ),
        (
            waits_for_the_leader,
            "has been rebalancing for 2.0 s because client audit at 127.0.0.1 (member id-2) left;"
            " it waits for client billing at 127.0.0.1 (member id-1) to assign.",
        ),
        (
            only_commits,
            "has had no members since just now; no rebalance is known since 2023-11-14 22:13:21"
            " UTC.",
        ),
    ],
)
def test_one_sentence_says_why_a_group_rebalances_or_does_not(story: Story, sentence: str) -> None:
    stage = GroupStage().loaded()
    story(stage)
    assert group_sentence(known(stage)) == f"Group 'orders-readers' {sentence}"


def test_the_brief_text_says_how_much_more_there_is() -> None:
    stage = GroupStage().loaded()
    joins_one_by_one(stage)
    text = brief_text(known(stage))
    assert text.count("\n- ") == 2
    assert text.endswith(
        "\n--verbose shows its members and 6 rebalances step by step and more to do.\n"
    )


def test_clients_that_say_that_nobody_polled_are_believed() -> None:
    stage = GroupStage().loaded()
    first, _ = two_of(stage)
    found = known(stage)
    who = found.group.members[1].who
    reason = "consumer poll timeout has expired."
    left = Rebalance(MonotonicMs(20_000), WallMs(WALL_MS), 1, 2, rebalance_timeout_ms=300_000)
    left.causes.append(Cause(CauseKind.MEMBER_LEFT, who, detail=reason))
    left.is_over = True
    with_it = known(stage, FormerCoordinator(2, 0, 1, (left,)))
    assert first
    assert f'(member id-2) left: "{reason}"' in explanation_text(with_it, 5)
    assert "did not poll within max.poll.interval.ms=300000 (once)" in advice(with_it)[0]


def test_rebalances_of_former_coordinators_come_first() -> None:
    stage = GroupStage().loaded()
    two_of(stage)
    before = Rebalance(MonotonicMs(1), WallMs(WALL_MS - 9_000), 0, 0)
    before.causes.append(Cause(CauseKind.OVER_CAPACITY))
    before.is_over = before.is_abandoned = True
    other = ExplainAnswer(
        ErrorCode.not_coordinator,
        2,
        1,
        WALL_MS,
        -1,
        None,
        (FormerCoordinator(2, WALL_MS - 10_000, WALL_MS - 5_000, (before,)),),
    )
    again = answer(stage, *other.former)  # it was handed on to the present coordinator
    found = merged(GROUP, {1: again, 2: other}, {}, ["broker 3: does not answer"])
    assert found is not None
    assert [broker for broker, _ in found.rebalances] == [2, 1]
    text = explanation_text(found, 5)
    assert "2 rebalances since 2023-11-14 22:13:10" in text
    assert "2023-11-14 22:13:11  after generation 0, not finished, on broker 2" in text
    assert "another broker coordinates the group since then" in text
    assert "broker 3: does not answer: what it knows is missing here." in text
    assert merged(GROUP, {2: other}, {}) is None


def test_explanation_names_rebalances_that_a_killed_coordinator_forgot() -> None:
    stage = GroupStage().loaded()
    first, second = two_of(stage)
    stage = stage.reloaded()
    found = known(stage)
    assert "No rebalances since 2023-11-14 22:13:21; those up to generation 1 are" in (
        explanation_text(found, 5)
    )
    assert advice(found) == ["Nothing yet: a coordinator that is killed forgets what it knew."]
    stage.leave(second)
    stage.join(first)
    assert "1 rebalance since 2023-11-14 22:13:21, those up to generation 1 are forgotten" in (
        explanation_text(known(stage), 5)
    )


def test_an_id_that_nobody_came_back_with_is_named() -> None:
    stage = GroupStage().loaded()
    first, second = two_of(stage)
    stage.join(client="third")  # is told a member id, and no more
    stage.leave(second)
    stage.join(first)
    stage.pass_time(1_000)
    text = " ".join(explanation_text(known(stage), 5).split())
    assert "for a client that was told its member id third-id-3 and is not back" in text


def test_foreign_text_is_escaped_and_cut() -> None:
    stage = GroupStage().loaded()
    joins = [stage.join_new(client="a\x1b[31m\n" + "x" * 200, reason='"\x07')]
    stage.pass_time(3 * DELAY_MS)
    stage.assign(joins)
    text = explanation_text(known(stage), 5)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "a\\x1b[31m\\nxxx" in text
    assert "x" * 50 not in text


WHO = [WhoseMember(f"m{number}", f"c{number}", "/h") for number in range(3)]


@pytest.mark.parametrize(
    ("rebalance", "expected"),
    [
        ({"joining_ms": None, "is_over": True}, []),
        ({"joining_ms": 3_000, "initial_delay_ms": 3_000}, [(CostKind.INITIAL_DELAY, 3_000)]),
        (
            {"joining_ms": 300, "slowest": [SlowMember(WHO[0], 300, has_joined=True)]},
            [],
        ),
        (
            {
                "joining_ms": 9_000,
                "slowest": [
                    SlowMember(WHO[0], 9_000, has_joined=False),
                    SlowMember(WHO[1], 9_000, has_joined=False),
                    SlowMember(WHO[2], 1_000, has_joined=True),
                ],
            },
            [(CostKind.MISSING, 8_000), (CostKind.MISSING, 8_000)],
        ),
        (
            {
                "joining_ms": 9_000,
                "slowest": [
                    SlowMember(WHO[0], 9_000, has_joined=True),
                    SlowMember(WHO[1], 2_000, has_joined=True),
                ],
            },
            [(CostKind.LATE, 7_000)],
        ),
    ],
)
def test_costs(rebalance: dict[str, Any], expected: list[tuple[CostKind, int]]) -> None:
    made = Rebalance(MonotonicMs(0), WallMs(0), 1, 2, **rebalance)
    assert [(cost.kind, cost.ms) for cost in costs(made, 20_000)] == expected


def test_members_of_the_newer_protocol_are_waited_for_until_they_give_up() -> None:
    stage = ConsumerStage().loaded()
    a = stage.consumer("0a1b2c3d4e5f")
    stage.pass_time(2_000)
    b = stage.consumer("f00dcafe")
    stage.pass_time(1_000)
    text = explanation_text(known(stage), 10)
    for said in (
        "Group 'orders-readers' (consumer): Reconciling for 1.0 s, epoch 2, 2 members, assignor",
        "0a1b2c3d  127.0.0.1  1      awaited, heard 3.0 s ago",
        "f00dcafe  127.0.0.1  2      waits for partitions",
        "after epoch 1, running for 1.0 s",
        "waiting     for 1.0 s for client client at 127.0.0.1 (member 0a1b2c3d)",
    ):
        assert said in text
    owned = a.owned
    b.beat()
    a.beat()
    for _ in range(7):
        stage.pass_time(9_000)
        b.beat()
        stage.beat(a.member_id, a.epoch, owned=owned)
    stage.pass_time(45_000)
    now = known(stage)
    text = explanation_text(now, 10)
    for said in (
        "epoch 1 -> 3 in 1 min 04 s, 1 -> 1 member",
        "+1 min 01 s client client at 127.0.0.1 (member 0a1b2c3d) did not give up its partitions",
        "reconciling 1 min 04 s",
        "sent no heartbeat within\n              group.consumer.session.timeout.ms=45000",
    ):
        assert said in text
    assert "did not poll within max.poll.interval.ms=60000 (once)" in advice(now)[0]
    assert advice(now)[1].endswith("raise consumer.session.timeout.ms of the group.")


def test_epochs_and_partitions_to_give_up_are_shown_of_the_newer_protocol() -> None:
    stage = ConsumerStage().loaded()
    first = stage.consumer("member-a")
    stage.pass_time(5_000)
    stage.consumer("member-b")
    stage.pass_time(1_000)
    first.beat()
    stage.pass_time(2_000)
    found = known(stage)
    text = " ".join(explanation_text(found, 5).split())
    assert "Reconciling for 3.0 s, epoch 2, 2 members" in text
    assert "CLIENT MEMBER HOST EPOCH NOW" in text
    assert "member-a 127.0.0.1 1 gives up orders(" in text
    assert "member-b 127.0.0.1 2 waits for partitions" in text
    told = explanation_object(found, 5)
    assert told["assignment_epoch"] == 2
    (member, other) = told["members"]
    assert (len(member["revoking"]["orders"]), member["revoke_left_ms"]) == (2, 58_000)
    assert (member["epoch"], other["epoch"], other["revoking"]) == (1, 2, {})
    assert read_answer(pack_answer(answer(stage))) == answer(stage)


def test_advice_names_heartbeats_when_the_group_waits_only_for_them() -> None:
    stage = ConsumerStage().loaded()
    first = stage.consumer("member-a")
    second = stage.consumer("member-b")
    third = stage.consumer("member-c")
    stage.pass_time(5_000)
    for _ in range(3):
        for member in (first, second, third):
            member.beat()
    found = known(stage)
    assert "reconciling 5.0 s" in explanation_text(found, 5)
    (sentence,) = advice(found)
    assert sentence.startswith("Reconciling took 5.0 s (once), and no member was slower")


# -- brokers that could not answer -----------------------------------------------------------------


def of_broker(number: int, at_ms: int, kind: str) -> dict[str, Any]:
    return {"ts": at_ms, "kind": kind, "process": f"broker {number}"}


def test_outages_of_brokers_are_found_in_the_supervisors_events() -> None:
    events = [
        of_broker(0, 1, "start"),
        of_broker(1, 2, "pause"),
        {"ts": 3, "kind": "death", "process": "registry"},
        of_broker(2, 4, "signal"),
        of_broker(2, 5, "death"),
        of_broker(1, 6, "resume"),
        of_broker(2, 7, "start"),
        of_broker(0, 8, "pause"),
        of_broker(0, 9, "death"),
        of_broker(1, 10, "controller"),
        {"ts": 11, "kind": "election", "subject": "orders-0"},
    ]
    assert outages(events) == [
        Outage(1, 2, 6, was_paused=True),
        Outage(2, 4, 7, was_paused=False),
        Outage(0, 8, 9, was_paused=True),
        Outage(0, 9, None, was_paused=False),
    ]
    assert str(outages(events)[0]) == "broker 1 was paused"
    assert str(outages(events)[-1]) == "broker 0 is down"


def test_no_client_is_blamed_for_a_pause_of_the_coordinator() -> None:
    stage = GroupStage().loaded()
    dies(stage)
    ended_ms = stage.now.wall_ms

    def told(*pauses: Outage) -> KnownGroup:
        found = merged(GROUP, {1: answer(stage)}, {}, (), pauses)
        assert found is not None
        return found

    blame = "sent no heartbeat within session.timeout.ms="
    assert blame in "\n".join(advice(told()))
    elsewhere = Outage(1, ended_ms - 900_000, ended_ms - 800_000, was_paused=True)
    assert blame in "\n".join(advice(told(elsewhere)))

    pause = Outage(1, ended_ms - 9_000, ended_ms - 1_000, was_paused=True)
    found = told(pause)
    assert found.outages == (pause,)
    sentences = "\n".join(advice(found))
    assert blame not in sentences
    assert "Broker 1, a coordinator of the group, was paused when members were taken" in sentences
    assert "raise" not in sentences
    unwrapped = " ".join(explanation_text(found, 5).split())
    assert "(broker 1 was paused then, and heard no member)" in unwrapped
    assert explanation_object(found, 5)["outages"] == [pause._asdict()]


def test_a_broker_that_answers_and_never_coordinated_excuses_nobody() -> None:
    stage = GroupStage().loaded()
    dies(stage)
    pause = Outage(2, stage.now.wall_ms - 9_000, None, was_paused=True)
    other = ExplainAnswer(ErrorCode.not_coordinator, 2, 1, WALL_MS, -1, None, ())
    found = merged(GROUP, {1: answer(stage), 2: other}, {}, (), [pause])
    assert found is not None
    assert found.outages == ()
    without_answer = merged(GROUP, {1: answer(stage)}, {}, ["broker 2: no answer"], [pause])
    assert without_answer is not None
    assert without_answer.outages == (pause,)


def test_rebalances_are_told_in_order_of_time_whoever_led_them() -> None:
    stage = GroupStage().loaded()
    two_of(stage)
    (own,) = known(stage).rebalances
    late = Rebalance(MonotonicMs(1), WallMs(own[1].started_wall_ms + 5_000), 0, 0, is_over=True)
    early = Rebalance(MonotonicMs(1), WallMs(own[1].started_wall_ms - 5_000), 0, 0, is_over=True)
    # It was paused while it coordinated, and went on when it was resumed.
    found = known(stage, FormerCoordinator(2, WALL_MS - 10_000, WALL_MS + 10_000, (early, late)))
    assert [broker for broker, _ in found.rebalances] == [2, 1, 2]
    starts = [each.started_wall_ms for _, each in found.rebalances]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("silent", "away", "words"),
    [
        ([], ["broker 1 is paused"], "does not answer at present (broker 1 is paused)"),
        (["broker 1: timed out"], [], "does not answer at present (broker 1: timed out)"),
        ([], [], "no group has been used yet"),
    ],
)
def test_why_nobody_coordinates(silent: list[str], away: list[str], words: str) -> None:
    text = why_nothing("g", {ErrorCode.not_coordinator}, silent, away)
    assert words in text
    assert ("no group has been used yet" in text) is (not silent and not away)


def test_a_member_that_a_new_coordinator_never_heard_is_not_taken_for_dead() -> None:
    stage = GroupStage().loaded()
    waits_for_the_dead(stage)
    now_ms = stage.now.wall_ms
    quiet_ms = max(each.quiet_ms or 0 for each in known(stage).group.members)
    dead = "it was killed, paused or cut off"

    def told(since_ms: int, *pauses: Outage) -> str:
        found = merged(GROUP, {1: replace(answer(stage), since_wall_ms=since_ms)}, {}, (), pauses)
        assert found is not None
        return " ".join(advice(found))

    pause = Outage(2, now_ms - quiet_ms - 9_000, now_ms - quiet_ms - 500, was_paused=True)
    assert dead in told(now_ms - quiet_ms)
    assert dead in told(now_ms - quiet_ms - 60_000, pause)  # heard after the pause
    text = told(now_ms - quiet_ms, pause)
    assert dead not in text
    assert "has not been heard since broker 2 was paused" in text


def test_an_assignment_that_a_former_coordinator_did_not_store_asks_for_nothing() -> None:
    stage = GroupStage().loaded()
    two_of(stage)
    for detail, is_told in (("NOT_COORDINATOR", False), ("COORDINATOR_NOT_AVAILABLE", True)):
        lost = Rebalance(MonotonicMs(1), WallMs(WALL_MS), 0, 0, is_over=True)
        lost.causes.append(Cause(CauseKind.ASSIGNMENT_NOT_STORED, detail=detail))
        found = known(stage, FormerCoordinator(2, WALL_MS - 1, WALL_MS + 1, (lost,)))
        assert ("could not be stored: look at" in " ".join(advice(found))) is is_told
