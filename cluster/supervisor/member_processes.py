"""Forks, signals and reaps the processes of a cluster's members; `supervisor` decides when."""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from cluster.model.cluster_view import ClusterView
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime.log_file import rotate_if_large
from cluster.runtime.logs import max_log_bytes
from cluster.runtime.loop import READABLE, EventLoop
from cluster.supervisor.member import Member
from cluster.supervisor.plan import ChildSpec
from cluster.supervisor.processes import fork_child, read_reports, send_signal, wait_for

log = logging.getLogger(__name__)


class MemberProcesses:
    """Owned by the supervisor. Invariant: no other process forks or reaps these children."""

    def __init__(
        self,
        loop: EventLoop,
        close_inherited: Callable[[ChildSpec], None],
        on_ready: Callable[[Member], None],
        on_progress: Callable[[Member, RecoveryProgress], None],
        on_view: Callable[[Member, ClusterView], None],
        on_exited: Callable[[Member, str], None],
    ) -> None:
        """`on_ready`: a process has reported that it serves. `on_progress`: a process has reported
        the progress of its recovery. `on_view`: a broker has reported a new view of the cluster.
        `on_exited`: a process has ended, and how.
        """
        self._loop = loop
        self._close_inherited = close_inherited
        self._on_ready = on_ready
        self._on_progress = on_progress
        self._on_view = on_view
        self._on_exited = on_exited

    def fork(self, member: Member, log_file: Path) -> None:
        """Start a member's process. A failed fork is reported later, through `on_exited`."""
        member.failure = member.progress = member.view = member.order = None
        if member.spec.held is not None:
            member.spec.held.open()
        rotate_if_large(log_file, max_log_bytes())
        try:
            member.log_begin_bytes = log_file.stat().st_size if log_file.exists() else 0
            forked = fork_child(member.spec, log_file, lambda: self._close_inherited(member.spec))
        except OSError as problem:
            how = f"could not be forked: {problem.strerror}"
            self._loop.defer(lambda: self._end(member, how))
            return
        member.pid, member.report_fd = forked
        self._loop.watch(forked.report_fd, READABLE, lambda _events: self._read_reports(member))

    def signal(self, member: Member, number: int) -> None:
        """Send a signal to a member's process, if it has one."""
        if member.pid is not None:
            send_signal(member.pid, number)

    def reap(self, members: Iterable[Member]) -> None:
        """Reap those of these processes that have ended; called at SIGCHLD."""
        for member in members:
            how = None if member.pid is None else wait_for(member.pid)
            if how is not None:
                self._end(member, how)

    def _end(self, member: Member, how: str) -> None:
        self._read_reports(member)  # it may have reported the reason of its failure
        self._close_reports(member)
        log.info("%s, pid %s, %s", member.spec.name, member.pid, how)
        member.pid = member.view = None
        self._on_exited(member, how)

    def _read_reports(self, member: Member) -> None:
        if member.report_fd is None:
            return
        reports = read_reports(member.report_fd)
        if reports is None:
            self._close_reports(member)
            return
        for report in reports:
            if report.failure is not None:
                member.failure = report.failure
            elif report.facts is not None:
                self._on_ready(member)
            elif report.progress is not None:
                self._on_progress(member, report.progress)
            elif report.view is not None:
                self._on_view(member, report.view)

    def _close_reports(self, member: Member) -> None:
        if member.report_fd is not None:
            self._loop.unwatch(member.report_fd)
            os.close(member.report_fd)
            member.report_fd = None
