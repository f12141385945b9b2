"""A rollup of a missing topic."""

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

from cluster.analytics.rollup import job
from cluster.analytics.rollup.job import RollupOptions, read_topic
from cluster.analytics.rollup.offset_ranges import TopicRanges
from cluster.model.errors import UserError
from cluster.model.topics import METRICS_TOPIC


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        (
            METRICS_TOPIC,
            " yet: brokers make it within seconds of their start, unless .*; try again",
        ),
        ("orders", ""),
    ],
)
def test_missing_topic_is_reported_with_the_remedy(monkeypatch, topic, says):
    monkeypatch.setattr(job, "topic_state", lambda *_: TopicRanges(topic, None, ()))
    options = RollupOptions({}, topic, "windows", log=None, master=None)
    with pytest.raises(UserError, match=rf"^there is no topic {topic}{says}$"):
        read_topic(options)
