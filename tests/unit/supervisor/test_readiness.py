from cluster.model.cluster_view import ClusterView
from cluster.supervisor.readiness import agreed_view

ALL = frozenset({0, 1, 2})


def test_a_cluster_is_ready_when_all_agree_on_all_and_on_a_living_controller():
    ready = ClusterView("c", 1, ALL)
    assert agreed_view([ready, ready, ready], ALL) == ready
    assert agreed_view([ready, None, ready], ALL) is None
    assert agreed_view([ready, ClusterView("c", 2, ALL), ready], ALL) is None
    assert agreed_view([ClusterView("c", -1, ALL)] * 3, ALL) is None
    assert agreed_view([ClusterView("c", 1, frozenset({0, 1}))] * 3, ALL) is None
    assert agreed_view([], frozenset()) is None


def test_a_view_survives_its_way_to_the_supervisor():
    view = ClusterView("c", 1, ALL)
    assert ClusterView.from_json(view.to_json()) == view
