"""One rollup from topic to files: fix offsets, add up new records, merge them into the windows."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException

from cluster.analytics.rollup.connector import ConnectorRunner
from cluster.analytics.rollup.engines import AUTO, LOCAL, engine
from cluster.analytics.rollup.kafka_records import topic_state
from cluster.analytics.rollup.offset_ranges import KAFKA, PYTHON, TopicRanges
from cluster.analytics.rollup.pieces import ReadJob, together
from cluster.analytics.rollup.plan import (
    SLICE_RECORDS,
    RunPlan,
    is_other_cluster,
    plan,
    records_in,
    slices,
)
from cluster.analytics.rollup.preflight import (
    check_addresses,
    check_output,
    check_pyspark,
    check_workers,
)
from cluster.analytics.rollup.runners import LocalRunner, Runner, SparkRunner
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.directory import (
    LATE_AFTER,
    Merged,
    WindowDirectory,
    closed_until,
)
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.merge import MergeResult, MergeTask
from cluster.analytics.windows.store import InUse, Store, UnknownStore, open_store
from cluster.model.errors import UserError
from cluster.model.topics import METRICS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Phase = Callable[[str], AbstractContextManager[None]]
"""Makes a context manager that shows the start of a step and, at its end, its duration."""
StartSpark = Callable[[], AbstractContextManager["SparkSession"]]
"""Makes a context manager that gives a session, such as `spark_session`."""


@dataclass(frozen=True, slots=True)
class RollupOptions:
    """What to read, where to compute, where to write."""

    connection: Mapping[str, str]
    """Settings of the Kafka client, `bootstrap.servers` among them."""
    topic: str
    output: str
    """A local path or a URI (`store.open_store`)."""
    log: Path | None
    """The file to which Spark's output is appended; None if Spark has its own."""
    master: str | None
    """None for the master of spark-submit."""
    engine: str = AUTO
    """One of `engines.ENGINES`."""
    source: str = PYTHON
    """What Spark reads with, one of `offset_ranges.SOURCES`."""
    full: bool = False
    """Whether to read everything in the topic rather than new records only."""
    retain: Mapping[str, timedelta] = field(default_factory=dict)
    """The age, by width, after which days of windows are removed; other widths are kept."""


@dataclass(frozen=True, slots=True)
class RollupSummary:
    """The result of one run. Every new record of the topic is counted in one of the first three."""

    partitions: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """Metric records by kind; `pieces.OTHER` stands for kinds without windows."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Values that are not metric records, by reason."""
    lost: int = 0
    """Records that retention removed between the last run and this one."""
    late: int = 0
    """Metric records that were added to windows which an earlier run had passed by a minute."""
    windows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Windows in the written files, by kind of record and width."""
    first_window: datetime | None = None
    last_window: datetime | None = None
    engine: str = LOCAL
    """LOCAL or SPARK."""
    cluster_id: str | None = None
    """None if the cluster has none."""
    is_other_topic: bool = False
    """Whether the topic was recreated since the last run."""
    removed_files: int = 0
    """Files that `retain` no longer keeps."""

    @property
    def records(self) -> int:
        """The number of records read."""
        return sum(self.counts.values()) + sum(self.rejected.values())


def roll_up(
    options: RollupOptions,
    phase: Phase,
    start_spark: StartSpark,
    prepare: Callable[[], None] = check_pyspark,
) -> RollupSummary:
    """Add new records of the topic to the windows. Starts Spark only for many.

    `prepare` first checks that this machine has what Spark needs. Raises UserError.
    """
    with phase(f"Looking at topic {options.topic}"):
        topic = read_topic(options)
    with opened(options.output) as directory:
        run = _Run(options, directory, choose(directory, topic, options), phase)
        with contextlib.ExitStack() as running:
            run.work(SparkStart(options, topic, phase, start_spark, prepare), running)
            if run.summary.engine != LOCAL:
                with phase("Stopping Spark"):
                    running.close()
        return replace(run.summary, removed_files=forget(directory, options))


def read_topic(options: RollupOptions) -> TopicRanges:
    """The current content of the topic. Raises UserError if it does not exist."""
    try:
        topic = topic_state(options.connection, options.topic)
    except KafkaException as problem:
        raise UserError(f"cannot read topic {options.topic}: {problem.args[0].str()}") from None
    if not topic.ranges:
        raise UserError(f"there is no topic {options.topic}{_until_when(options.topic)}")
    return topic


def _until_when(topic: str) -> str:
    """What to do about a missing topic, which brokers create."""
    if topic != METRICS_TOPIC:
        return ""
    return (
        " yet: brokers make it within seconds of their start, unless milena.metrics.topic.enable"
        " is false; try again"
    )


@contextlib.contextmanager
def opened(place: str) -> Iterator[WindowDirectory]:
    """The windows in a place, locked against other processes within the block.

    Raises UserError, also for errors of their files within the block.
    """
    try:
        store = open_store(place)
        check_output(store)
        with WindowDirectory.open(store) as directory:
            yield directory
    except InUse:
        raise UserError(
            f"another rollup is at work in {store.shown()}: try again when it has ended"
        ) from None
    except (UnknownStore, UnusableDirectory) as problem:
        raise UserError(str(problem)) from None


def choose(
    directory: WindowDirectory,
    topic: TopicRanges,
    options: RollupOptions,
    *,
    is_empty_allowed: bool = False,
) -> RunPlan:
    """The plan of a run.

    Raises UserError if the windows are of another topic or cluster, or if there have never been any
    records.
    """
    progress = directory.manifest.progress
    output = directory.store.shown()
    if progress is not None and progress.topic != topic.name:
        raise UserError(
            f"{output} holds windows of topic {progress.topic}:"
            f" give another --output for {topic.name}"
        )
    if progress is not None and is_other_cluster(progress, topic):
        raise UserError(
            f"{output} holds windows of cluster {progress.cluster_id}, and"
            f" {options.connection['bootstrap.servers']} is cluster {topic.cluster_id}:"
            " give another --output for it"
        )
    chosen = plan(progress, topic, whole=is_whole(directory, options))
    if progress is None and not chosen.ranges and not is_empty_allowed:
        raise UserError(f"topic {topic.name} holds no records yet: let clients work first")
    return chosen


def is_whole(directory: WindowDirectory, options: RollupOptions) -> bool:
    """Whether a run computes all windows: on request, or if their position is unknown."""
    return options.full or holds_unknown(directory)


def holds_unknown(directory: WindowDirectory) -> bool:
    """Whether there are windows of a version that did not store its position."""
    return directory.manifest.progress is None and bool(directory.manifest.days)


def forget(directory: WindowDirectory, options: RollupOptions) -> int:
    """Remove what the options do not retain. Returns the number of files removed."""
    return directory.forget(options.retain, datetime.now(UTC).date()) if options.retain else 0


class SparkStart(NamedTuple):
    """How to start Spark for a run, if it is needed."""

    options: RollupOptions
    topic: TopicRanges
    phase: Phase
    session: StartSpark
    prepare: Callable[[], None]

    def runner(self, running: contextlib.ExitStack, store: Store) -> SparkRunner:
        """A runner by Spark, once its workers have what they need. Raises UserError."""
        options = self.options
        self.prepare()
        if options.master is not None:
            self._check_addresses(options.master)
        with self.phase("Starting Spark"):
            spark = running.enter_context(self.session())
        if options.master is None:
            self._check_addresses(spark.sparkContext.master or "")
        with self.phase("Looking at Spark's workers"):
            check_workers(spark, store)
        runner = ConnectorRunner if options.source == KAFKA else SparkRunner
        return runner(spark, options.log)

    def _check_addresses(self, master: str) -> None:
        check_addresses(master, self.options.connection["bootstrap.servers"], self.topic.hosts)


class _Run:
    """The work of one rollup on an open directory."""

    def __init__(
        self, options: RollupOptions, directory: WindowDirectory, chosen: RunPlan, phase: Phase
    ) -> None:
        self.summary = RollupSummary(
            partitions=len(chosen.start.offsets),
            lost=chosen.lost,
            cluster_id=chosen.start.cluster_id,
            is_other_topic=chosen.is_other_topic,
        )
        self._options = options
        self._directory = directory
        self._chosen = chosen
        self._phase = phase
        self._runner: Runner = LocalRunner()

    def work(self, spark: SparkStart, running: contextlib.ExitStack) -> None:
        """Do all the work; Spark, if it is needed, runs until `running` ends."""
        waiting = sum(delta.rows for delta in self._directory.manifest.deltas)
        if not self._chosen.ranges and not waiting:
            return
        chosen = self._options.engine
        if chosen == AUTO:
            chosen = engine(records_in(self._chosen.ranges), waiting)
        self.summary = replace(self.summary, engine=chosen)
        if chosen != LOCAL:
            self._runner = spark.runner(running, self._directory.store)
        self._read()
        self._merge()

    def _read(self) -> None:
        """Read the plan in parts, and keep each part when it is done."""
        if not self._chosen.ranges:
            return
        if is_whole(self._directory, self._options):
            self._reread()
            return
        for ranges, progress in slices(self._chosen, SLICE_RECORDS[self.summary.engine]):
            late_before = closed_until(self._directory.manifest.newest_s, LATE_AFTER)
            job = self._job(late_before)
            with self._phase(f"Rolling up {records_in(ranges):,} records"):
                results = self._runner.read(job, ranges)
                self._directory.append(results, progress)
            self._note(results)

    def _merge(self) -> None:
        """Make everything that was added visible to all readers."""
        if self._directory.manifest.deltas:
            with self._phase("Merging them into the windows"):
                for merged in self._directory.merge(self._carry_out, everything=True):
                    self._note_merged(merged)

    def _reread(self) -> None:
        """Read everything in the topic; of each window keep the version made from more records."""
        results: list[PieceResult] = []
        progress = self._chosen.start
        job = self._job(None)  # repeated records are not late
        for ranges, reached in slices(self._chosen, SLICE_RECORDS[self.summary.engine]):
            with self._phase(f"Rolling up {records_in(ranges):,} records"):
                results += self._runner.read(job, ranges)
                progress = reached
        with self._phase("Comparing them with the windows"):
            tasks = self._directory.reread_merges(results)
            done = list(self._carry_out(tasks))
            days = self._directory.day_merges(tasks, done)
            done += self._carry_out(days)
            merged = self._directory.merged([*tasks, *days], done, progress=progress, read=results)
        self._note_merged(merged)
        self._note(results)

    def _job(self, late_before: datetime | None) -> ReadJob:
        return ReadJob(
            connection=self._options.connection,
            topic=self._options.topic,
            output=self._options.output,
            change=self._directory.next_change,
            late_before_s=None if late_before is None else int(late_before.timestamp()),
        )

    def _carry_out(self, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        return self._runner.merge(self._options.output, tasks)

    def _note(self, results: Sequence[PieceResult]) -> None:
        before = self.summary
        found = together(results)
        firsts = [_time(delta.first_s) for delta in found.deltas]
        lasts = [_time(delta.last_s) for delta in found.deltas]
        self.summary = replace(
            before,
            counts=Counter(before.counts) + Counter(found.counts),
            rejected=Counter(before.rejected) + Counter(found.rejected),
            lost=before.lost + found.lost,
            late=before.late + found.late,
            first_window=min([*firsts, *_there(before.first_window)], default=None),
            last_window=max([*lasts, *_there(before.last_window)], default=None),
        )

    def _note_merged(self, merged: Merged) -> None:
        windows = {kind: Counter(counts) for kind, counts in self.summary.windows.items()}
        for kind, counts in merged.windows.items():
            windows.setdefault(kind, Counter()).update(counts)
        self.summary = replace(self.summary, windows=windows)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _there(time: datetime | None) -> list[datetime]:
    return [] if time is None else [time]
