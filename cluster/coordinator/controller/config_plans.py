"""Checks and plans for changes of topic configs (AlterConfigs, IncrementalAlterConfigs). Pure."""

from collections.abc import Callable, Mapping, Sequence

from cluster.model.cluster import ClusterState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome, Plan
from cluster.model.topics import TopicAlteration


def plan_topic_configs(
    state: ClusterState,
    alterations: Sequence[TopicAlteration],
    check_configs: Callable[[Mapping[str, str]], object],
) -> tuple[Plan, dict[str, Outcome]]:
    """One plan for all topics whose new configs are valid, and the outcome by topic name."""
    plan = Plan()
    outcomes: dict[str, Outcome] = {}
    for alteration in alterations:
        topic = state.topics.get(alteration.topic)
        if topic is None:
            outcomes[alteration.topic] = Outcome(
                ErrorCode.unknown_topic_or_partition,
                f"The topic '{alteration.topic}' does not exist.",
            )
            continue
        configs = {} if alteration.is_whole else dict(topic.configs)
        for key, value in alteration.values.items():
            if value is None:
                configs.pop(key, None)
            else:
                configs[key] = value
        try:
            check_configs(configs)
        except Refused as refused:
            outcomes[alteration.topic] = Outcome(refused.code, refused.detail)
            continue
        if configs != topic.configs:
            plan.configured[alteration.topic] = configs
        outcomes[alteration.topic] = Outcome(ErrorCode.none)
    return plan, outcomes
