"""Reassignments and elections are answered as Kafka 4.1 answered the same requests."""

import json
from random import Random
from typing import Any

from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.model.errors import ErrorCode
from cluster.model.ids import ControllerEpoch
from cluster.model.plan import Outcome, Plan
from tests.support.cluster_states import a_cluster, a_partition, a_topic
from tests.support.handler_stage import HandlerStage
from tests.support.reassignment_cases import ME, OTHER, TOPICS, cases, plain, recorded


class Decider:
    """Decides what a stage's controller is asked."""

    def __init__(self, stage: HandlerStage) -> None:
        topics = (
            a_topic(name, *(a_partition(each, leader=ME) for each in partitions))
            for name, partitions in TOPICS.items()
        )
        self._stage = stage
        self._controller = Controller(
            ControllerEpoch(1),
            a_cluster([ME, OTHER], *topics),
            TopicRules(1, 1, lambda _configs: None),
            Random(1),
            lambda _configs: False,
        )

    def decide(self) -> None:
        asked = self._stage.controller.take()
        if asked.operation == "alter_reassignments":
            plan, outcomes = self._controller.alter_reassignments(
                asked.subjects, may_change_factor=asked.may_change_factor
            )
        else:
            plan, outcomes = self._controller.elect_leaders(*asked.subjects)
        self._apply(plan)
        self._apply(self._controller.complete_reassignments())
        self._stage.controller.ongoing = dict(self._controller.reassigning.states(None))
        asked.on_done(Outcome(ErrorCode.none), outcomes)

    def _apply(self, plan: Plan) -> None:
        for _ in plan.steps:
            pass
        plan.apply(self._controller.state)
        self._controller.on_applied(plan)


def test_requests_are_answered_as_kafka_answered_them(stage: HandlerStage) -> None:
    decider, client = Decider(stage), stage.connect()
    kafka = recorded()
    asked_for: list[str] = []
    different: dict[str, Any] = {}
    for name, asked in cases():
        asked_for.append(name)
        client.send(asked)
        if client.is_waiting:
            decider.decide()
        ours = json.loads(json.dumps(plain(client.receive())))
        if ours != kafka[name]:
            different[name] = (ours, kafka[name])
    assert different == {}
    assert asked_for == list(kafka)
