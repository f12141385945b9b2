"""The topics that the members of a newer group subscribe to, by name or by expression. Pure."""

from collections import Counter
from collections.abc import Collection

from cluster.coordinator.groups.state.consumer_values import MemberMetadata, ResolvedExpression


class Subscriptions:
    """Counts of names and expressions over all members, and the topics of resolved expressions."""

    __slots__ = ("_names", "expression_counts", "expressions")

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        """How many members subscribe to a topic by name."""
        self.expression_counts: Counter[str] = Counter()
        """How many members subscribe by an expression. Read only."""
        self.expressions: dict[str, ResolvedExpression] = {}
        """The topics of expressions that have been resolved."""

    def count(self, metadata: MemberMetadata, change: int) -> None:
        """Add (1) or remove (-1) the subscription of one member."""
        for name in metadata.subscribed_topic_names:
            add_count(self._names, name, change)
        if metadata.regex is not None:
            add_count(self.expression_counts, metadata.regex, change)

    def set_expression(self, text: str, resolved: ResolvedExpression | None) -> None:
        """Set the topics of an expression; None: it is not stored."""
        if resolved is None:
            self.expressions.pop(text, None)
        else:
            self.expressions[text] = resolved

    def topics(self) -> set[str]:
        """All topics; some may not exist."""
        topics = set(self._names)
        for resolved in self.expressions.values():
            topics |= resolved.topics
        return topics

    def topics_of(self, metadata: MemberMetadata) -> frozenset[str]:
        """The topics of one member."""
        names = metadata.subscribed_topic_names
        resolved = None if metadata.regex is None else self.expressions.get(metadata.regex)
        return names if resolved is None else names | resolved.topics

    def has_topics(self, regex: str | None) -> bool:
        """Whether the expression has been resolved and matches a topic."""
        return regex in self.expressions and bool(self.expressions[regex].topics)

    def include(self, topic: str) -> bool:
        """Whether a member may consume the topic."""
        return topic in self._names or any(
            topic in resolved.topics for resolved in self.expressions.values()
        )

    def include_any(self, topics: Collection[str]) -> bool:
        """Whether a member may consume one of the topics."""
        return not self._names.keys().isdisjoint(topics) or any(
            not resolved.topics.isdisjoint(topics) for resolved in self.expressions.values()
        )


def add_count(counter: Counter[str], name: str, change: int) -> None:
    """Change a count, and remove the name at zero."""
    counter[name] += change
    if not counter[name]:
        del counter[name]
