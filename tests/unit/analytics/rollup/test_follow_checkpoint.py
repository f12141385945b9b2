"""The checkpoint of a following rollup: batches in Spark's files, and invalid checkpoints."""

import json
from pathlib import Path

import pytest

from cluster.analytics.rollup.follow_checkpoint import BadCheckpoint, FollowCheckpoint, Subject
from cluster.analytics.rollup.stream_offsets import Offsets
from tests.support.follow_checkpoints import plan_batch

SUBJECT = Subject("metrics", "topic-id", "schema")
START: Offsets = {0: 5, 1: 7}


@pytest.fixture
def begun(tmp_path: Path) -> FollowCheckpoint:
    checkpoint = FollowCheckpoint(tmp_path / "checkpoint")
    checkpoint.begin(SUBJECT, START)
    return checkpoint


def test_a_new_one_is_about_its_subject_and_has_no_batches(begun):
    assert begun.subject() == SUBJECT
    assert begun.last_batch() is None
    assert begun.start_of(0) == START


def test_one_of_a_version_that_did_not_note_the_cluster_is_taken(tmp_path):
    described = {"version": 1, "topic": "x", "topic_id": "id", "schema": "s", "start": {}}
    (tmp_path / "follow.json").write_text(json.dumps(described))
    assert FollowCheckpoint(tmp_path).subject() == Subject("x", "id", "s", None)


def test_subject_is_none_without_a_checkpoint(tmp_path):
    assert FollowCheckpoint(tmp_path).subject() is None
    assert FollowCheckpoint(tmp_path / "missing").subject() is None


def test_a_batch_begins_where_the_one_before_ended(begun):
    plan_batch(begun, 0, {0: 9, 1: 7}, is_committed=True)
    plan_batch(begun, 1, {0: 9, 1: 8})
    assert begun.last_batch() == 1
    assert (begun.is_committed(0), begun.is_committed(1)) == (True, False)
    assert begun.start_of(0) == START
    assert begun.start_of(1) == begun.end_of(0) == {0: 9, 1: 7}
    assert begun.end_of(1) == {0: 9, 1: 8}


def test_beginning_again_forgets_the_batches(begun):
    plan_batch(begun, 0, {0: 9, 1: 7})
    begun.begin(SUBJECT, {0: 11})
    assert begun.last_batch() is None
    assert begun.start_of(0) == {0: 11}


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("not json", "follow.json is damaged"),
        ("[]", "follow.json is damaged"),
        ('{"version": 2}', "version 2"),
        ("{}", "version None"),
        ('{"version": 1, "topic": "x"}', "lacks 'topic_id'"),
    ],
)
def test_a_description_of_another_version_or_damaged_is_refused(tmp_path, written, reason):
    (tmp_path / "follow.json").write_text(written)
    with pytest.raises(BadCheckpoint, match=reason):
        FollowCheckpoint(tmp_path).subject()


def test_a_directory_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "metadata").write_text('{"id":"another query"}')
    with pytest.raises(BadCheckpoint, match="it holds metadata, which is not ours"):
        FollowCheckpoint(tmp_path).subject()


def test_without_a_place_to_start_it_is_refused(tmp_path):
    described = {"version": 1, "topic": "x", "topic_id": None, "schema": "s"}
    (tmp_path / "follow.json").write_text(json.dumps(described))
    with pytest.raises(BadCheckpoint, match=r"follow.json: no offsets"):
        FollowCheckpoint(tmp_path).start_of(0)


@pytest.mark.parametrize("written", ["", "v1", "v1\n{}\n", "v2\n{}\n{}", "v1\n{}\n{", "v1\n{}\n[]"])
def test_a_damaged_batch_is_refused(begun, written):
    plan_batch(begun, 0, {0: 9})
    (begun.spark / "offsets" / "0").write_text(written)
    with pytest.raises(BadCheckpoint, match="offsets/0 is damaged"):
        begun.end_of(0)


@pytest.mark.parametrize("name", ["metadata", "commits/1"])
@pytest.mark.parametrize("written", ["", "v1", "v1\n{", "v7\n{}", '{"i'])
def test_checkpoint_that_spark_cannot_continue_is_refused(begun, name, written):
    """A power failure leaves the newest files empty or cut."""
    for number in (0, 1):
        plan_batch(begun, number, {0: 9 + number}, is_committed=True)
    (begun.spark / "metadata").write_text('{"id":"a-query"}')
    begun.check()
    (begun.spark / name).write_text(written)
    with pytest.raises(BadCheckpoint, match=f"spark/{name} is damaged"):
        begun.check()


def test_a_missing_batch_is_refused(begun):
    plan_batch(begun, 1, {0: 9})
    with pytest.raises(BadCheckpoint, match="offsets/0 is missing"):
        begun.start_of(1)
