"""The outcomes of a request about topics, as a message to another broker. Pure."""

from collections.abc import Mapping

from cluster.model.plan import Outcome
from cluster.protocol.peer.control import TopicOutcome, TopicOutcomes


def topic_outcomes(outcomes: Mapping[str, Outcome]) -> TopicOutcomes:
    """One for each topic of the request."""
    return TopicOutcomes([TopicOutcome(name, *outcome) for name, outcome in outcomes.items()])
