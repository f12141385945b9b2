from cluster.model.cluster_view import ClusterView
from cluster.supervisor.readiness import agreed_view

ALL = frozenset({0, 1, 2})


def test_view_is_agreed_when_all_brokers_see_all_brokers_and_a_live_controller():
    ready = ClusterView("c", 1, ALL)
    assert agreed_view([ready, ready, ready], ALL) == ready
    assert agreed_view([ready, None, ready], ALL) is None
    assert agreed_view([ready, ClusterView("c", 2, ALL), ready], ALL) is None
    assert agreed_view([ClusterView("c", -1, ALL)] * 3, ALL) is None
    assert agreed_view([ClusterView("c", 1, frozenset({0, 1}))] * 3, ALL) is None
    assert agreed_view([], frozenset()) is None


def test_view_survives_serialization():
    view = ClusterView("c", 1, ALL)
    assert ClusterView.from_json(view.to_json()) == view
