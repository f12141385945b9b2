"""The topics in a consumer's metadata, in any version."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_subscription import v0, v3
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32

from cluster.coordinator.groups.shared.subscription import subscribed_topics
from tests.support.group_stage import subscription

TOPICS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5)


@given(TOPICS)
def test_subscribed_topics_reads_version_0(topics):
    written = io.BytesIO()
    message = v0.ConsumerProtocolSubscription(topics=tuple(topics), user_data=b"of the assignor")
    entity_writer(v0.ConsumerProtocolSubscription)(written, message)
    metadata = struct.pack(">h", 0) + written.getvalue()
    assert subscribed_topics(metadata) == frozenset(topics)


@given(TOPICS)
def test_subscribed_topics_reads_later_versions(topics):
    written = io.BytesIO()
    message = v3.ConsumerProtocolSubscription(
        topics=tuple(topics),
        user_data=None,
        owned_partitions=(
            v3.data.TopicPartition(topic=TopicName("orders"), partitions=(i32(1), i32(2))),
        ),
        generation_id=i32(7),
        rack_id="r1",
    )
    entity_writer(v3.ConsumerProtocolSubscription)(written, message)
    metadata = struct.pack(">h", 3) + written.getvalue()
    assert subscribed_topics(metadata) == frozenset(topics)


def test_subscribed_topics_reads_the_metadata_of_these_tests():
    assert subscribed_topics(subscription("orders", "bills")) == {"orders", "bills"}


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\0",
        b"\0\0\0\0\0\1",
        b"\0\0\0\0\0\1\0\5abc",
        b"\0\0\0\0\0\1\xff\xff",
        b"\0\0\0\0\0\1\0\1\xff",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"\xff\xff\0\0\0\0",
    ],
)
def test_subscribed_topics_is_none_for_other_bytes(metadata):
    assert subscribed_topics(metadata) is None


@given(st.binary(max_size=60))
def test_subscribed_topics_accepts_any_bytes(metadata):
    found = subscribed_topics(metadata)
    assert found is None or isinstance(found, frozenset)
