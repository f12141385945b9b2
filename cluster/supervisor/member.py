"""A child of a running cluster: its specification, its state machine, and its process if
it has one.
"""

from typing import Any

from cluster.model.cluster_view import ClusterView
from cluster.model.recovery_progress import RecoveryProgress
from cluster.supervisor.child import Child, ChildState, RestartPolicy
from cluster.supervisor.plan import ChildSpec


class Member:
    """Owned by the supervisor. Invariant: `pid` is set exactly while the process is not reaped."""

    def __init__(self, spec: ChildSpec, policy: RestartPolicy) -> None:
        self.spec = spec
        self.child = Child(policy)
        self.pid: int | None = None
        self.report_fd: int | None = None
        self.log_begin_bytes = 0
        """The offset in the log file at which the output of the last process begins."""
        self.failure: str | None = None
        """The reason that the last process reported for its failure, if it reported one."""
        self.view: ClusterView | None = None
        """A broker's most recent view of the cluster."""
        self.order: str | None = None
        """What a command has ordered that ends the present process."""
        self.is_leaving = False
        """Whether it is forgotten once its process has ended."""
        self.progress: RecoveryProgress | None = None
        """The progress of its recovery; None unless it is recovering."""

    def describe(self) -> dict[str, Any]:
        """The fields of this member in `status` and cluster.json."""
        shown: dict[str, Any] = {
            "pid": self.pid,
            "state": self.child.state.value,
            "host": self.spec.host,
            "port": self.spec.port,
            "restarts": self.child.restart_count,
        }
        if self.progress is not None and self.child.state is ChildState.RECOVERING:
            shown["recovery"] = self.progress.to_json()
        if self.spec.broker_id is None:
            return {**shown, "listens_on": self.spec.listens_on or self.spec.host}
        return {
            "id": self.spec.broker_id,
            "slot": self.spec.slot,
            **shown,
            "listeners": [each._asdict() for each in self.spec.listeners],
            "log_dirs": [str(path) for path in self.spec.log_dirs],
            "rack": self.spec.rack,
            "session_timeout_ms": self.spec.session_timeout_ms,
        }
