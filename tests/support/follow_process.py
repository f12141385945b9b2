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

from cluster.analytics import follow_job
from cluster.analytics.follow_output import Batch, FollowedOutput
from cluster.analytics.rollup_job import RollupOptions

PLACES = ("planned", "half in place", "added")
"""Before a planned batch is added; when the first of its files is in place; when it is added and
Spark has not committed it."""


def kill_at(place: str, number: int, output: Path) -> None:
    """Let this process die at a place of the batch with this number, counted from the first."""
    take = FollowedOutput.take
    replace = Path.replace
    taken = 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def taking(self: FollowedOutput, number_given: int, sums: Any) -> Batch:
        nonlocal taken
        taken += 1
        if taken == number and place == "planned":
            die()
        found = take(self, number_given, sums)
        if taken == number and place == "added":
            die()
        return found

    def replacing(self: Path, target: Path) -> Path:
        found = replace(self, target)
        is_window = output in target.parents and ".drafts" not in target.parts
        if taken == number and place == "half in place" and is_window:
            die()
        return found

    FollowedOutput.take = taking  # type: ignore[method-assign,assignment]
    Path.replace = replacing  # type: ignore[method-assign,assignment]


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

    follow_job.follow(options, lambda _: nullcontext(), tell, lambda: False)


if __name__ == "__main__":
    main()
