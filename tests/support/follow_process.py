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
from cluster.analytics.rollup_output import RollupOutput
from cluster.model.errors import UserError

PLACES = ("planned", "compacting", "written", "half in place", "added")
"""Before a planned batch is added; when a day's hours have been joined and are still there; when
the batch's files are written and nothing is decided; when the first of them is in place; when it is
added and Spark has not committed it."""
JAVA_KILLED = "java killed"
"""Spark's JVM dies while a batch is added: the process ends by itself."""


def kill_at(place: str, number: int, output: Path) -> None:
    """Let this process die at a place of the batch with this number, counted from the first."""
    take = FollowedOutput.take
    replace = Path.replace
    compact = RollupOutput.compact
    taken = 0
    is_compacting = False

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def taking(self: FollowedOutput, number_given: int, sums: Any) -> Batch:
        nonlocal taken
        taken += 1
        if taken == number and place == "planned":
            die()
        if taken == number and place == JAVA_KILLED:
            for child in psutil.Process().children(recursive=True):
                if child.name() == "java":
                    child.kill()
        found = take(self, number_given, sums)
        if taken == number and place == "added":
            die()
        return found

    def replacing(self: Path, target: Path) -> Path:
        if taken == number and place == "written" and target.name == "commit.json":
            die()
        found = replace(self, target)
        is_window = output in target.parents and ".drafts" not in target.parts
        if taken == number and place == "half in place" and is_window:
            die()
        if is_compacting and is_window:
            die()
        return found

    def compacting(self: RollupOutput) -> int:
        nonlocal is_compacting
        is_compacting = place == "compacting"
        found = compact(self)
        is_compacting = False
        return found

    FollowedOutput.take = taking  # type: ignore[method-assign,assignment]
    Path.replace = replacing  # type: ignore[method-assign,assignment]
    RollupOutput.compact = compacting  # type: ignore[method-assign]


def main() -> None:
    """Follow to the end of the topic. Prints a line of JSON for each batch."""
    given = json.loads(sys.argv[1])
    output = Path(given["output"])
    if given["kill_at"]:
        kill_at(given["kill_at"], given["batch"], output)
    options = follow_job.FollowOptions(
        rollup=RollupOptions(
            connection={"bootstrap.servers": given["servers"]},
            topic=given["topic"],
            output=output,
            log=Path(given["log"]),
            master="local[2]",
        ),
        checkpoint=output / ".follow",
        interval_s=0.1,
        most=given["most"],
        watermark=timedelta(minutes=1),
        until_end=True,
    )

    def tell(step: follow_job.Step) -> None:
        added = step.batch.added
        print(
            json.dumps(
                {
                    "batch": step.batch.number,
                    "offsets": step.batch.offsets,
                    "counts": added and added.counts,
                    "late": added and added.late,
                    "behind": step.behind,
                }
            ),
            flush=True,
        )

    try:
        follow_job.follow(options, lambda _: nullcontext(), tell, lambda: False)
    except UserError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
