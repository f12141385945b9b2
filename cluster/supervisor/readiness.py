"""Decides whether the brokers agree on the cluster, from the views that they report. Pure."""

from collections.abc import Iterable

from cluster.model.cluster_view import ClusterView


def agreed_view(views: Iterable[ClusterView | None], brokers: frozenset[int]) -> ClusterView | None:
    """The common view if every broker sees all `brokers` and the same live controller.

    Brokers that another command has started may be there, too.
    """
    seen = list(views)
    if not seen or seen[0] is None or any(view != seen[0] for view in seen):
        return None
    view = seen[0]
    return view if brokers <= view.brokers and view.controller in view.brokers else None
