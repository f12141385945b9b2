"""A process that follows a topic, and kills itself at a given place: `python -m` with JSON options.

The product has no such hooks: this process puts them around its functions.
"""

import json
import os
import signal
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from cluster.analytics.rollup import follow_job
from cluster.analytics.rollup.follow_output import Batch, FollowedOutput
from cluster.analytics.rollup.job import RollupOptions
from cluster.analytics.rollup.spark_session import spark_session
from cluster.analytics.windows.directory import Merged
from cluster.analytics.windows.layout import MANIFEST
from cluster.analytics.windows.store import LocalStore
from cluster.model.errors import UserError

PLACES = ("read", "merging", "half in place")
"""When the deltas of a planned batch are written and nothing is decided; when a batch is added, an
hour has been merged into drafts, and Spark has not committed the batch; when the first draft of the
last merges of a clean end is in place. These differ for Spark's executors and its checkpoint; the
unit tests of `FollowedOutput` and `WindowDirectory` kill at each operation on files."""
JAVA_KILLED = "java killed"
"""Spark's JVM dies while a batch is added: the process ends by itself."""


def kill_at(place: str) -> None:
    """Let this process die at a place of its first batch, or of the first merge after it."""
    take = FollowedOutput.take
    merge_some = FollowedOutput.merge_some
    write_bytes = LocalStore.write_bytes
    move = LocalStore.move
    has_taken = is_taking = False

    def die_at(name: str, *, is_now: bool = True) -> None:
        if is_now and place == name:
            os.kill(os.getpid(), signal.SIGKILL)

    def taking(self: FollowedOutput, number_given: int, read: Any) -> Batch:
        nonlocal has_taken, is_taking
        is_taking, has_taken = not has_taken, True
        if is_taking and place == JAVA_KILLED:
            for child in psutil.Process().children(recursive=True):
                if child.name() == "java":
                    child.kill()
        found = take(self, number_given, read)
        is_taking = False
        return found

    def writing(self: LocalStore, path: str, content: bytes) -> None:
        die_at("read", is_now=is_taking and path == MANIFEST)
        write_bytes(self, path, content)

    def moving(self: LocalStore, source: str, target: str) -> None:
        die_at("merging", is_now=has_taken)
        move(self, source, target)
        die_at("half in place")

    def merging_some(self: FollowedOutput, *given: Any) -> Merged | None:
        return None if place == "half in place" else merge_some(self, *given)

    FollowedOutput.take = taking  # type: ignore[method-assign,assignment]
    FollowedOutput.merge_some = merging_some  # type: ignore[method-assign,assignment]
    LocalStore.write_bytes = writing  # type: ignore[method-assign]
    LocalStore.move = moving  # type: ignore[method-assign]


def main() -> None:
    """Follow to the end of the topic. Prints a line of JSON for each batch."""
    given = json.loads(sys.argv[1])
    output = Path(given["output"])
    if given["kill_at"]:
        kill_at(given["kill_at"])
    options = follow_job.FollowOptions(
        rollup=RollupOptions(
            connection={"bootstrap.servers": given["servers"]},
            topic=given["topic"],
            output=str(output),
            log=Path(given["log"]),
            master="local[2]",
        ),
        checkpoint=output / "_follow",
        interval_s=0.1,
        most=given["most"],
        watermark=timedelta(minutes=1),
        until_end=True,
    )

    def tell(step: follow_job.BatchReport) -> None:
        result = step.batch.result
        print(
            json.dumps(
                {
                    "batch": step.batch.number,
                    "offsets": step.batch.offsets,
                    "counts": result and result.counts,
                    "late": result and result.late,
                    "behind": step.behind,
                }
            ),
            flush=True,
        )

    try:
        follow_job.follow(
            options,
            lambda _: nullcontext(),
            tell,
            lambda: False,
            lambda: spark_session("local[2]", Path(given["log"])),
        )
    except UserError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
