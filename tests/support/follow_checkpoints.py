"""Writes what Spark writes into a checkpoint."""

import json

from cluster.analytics.rollup.follow_checkpoint import FollowCheckpoint
from cluster.analytics.rollup.stream_offsets import Offsets, to_json


def plan_batch(
    checkpoint: FollowCheckpoint, number: int, end: Offsets, *, is_committed: bool = False
) -> None:
    """Let there be a batch that ends at `end`, planned or also committed."""
    (checkpoint.spark / "offsets").mkdir(parents=True, exist_ok=True)
    text = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(to_json(end))}'
    (checkpoint.spark / "offsets" / str(number)).write_text(text)
    if is_committed:
        (checkpoint.spark / "commits").mkdir(exist_ok=True)
        (checkpoint.spark / "commits" / str(number)).write_text("v1\n{}")
