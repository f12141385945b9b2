"""A controller that keeps what it is asked, until a test answers."""

from dataclasses import dataclass
from typing import Any


@dataclass
class AskedOfController:
    """One operation and its arguments; `on_done` is to be called once."""

    operation: str
    subjects: Any
    on_done: Any
    timeout_ms: int
    validate_only: bool = False
    admit: Any = None
    """What asks the quota of the client."""
    may_change_factor: bool = True


class ScriptedController:
    """Stands in for `ControllerRequests`."""

    def __init__(self) -> None:
        self.asked: list[AskedOfController] = []
        self.is_active = True
        self.ongoing: dict[Any, Any] = {}
        """Partitions that are being reassigned, with their states."""

    def create_topics(
        self, topics: Any, *, validate_only: bool, timeout_ms: int, on_done: Any, admit: Any = None
    ) -> None:
        self.asked.append(
            AskedOfController("create_topics", topics, on_done, timeout_ms, validate_only, admit)
        )

    def delete_topics(
        self, topics: Any, timeout_ms: int, on_done: Any, *, admit: Any = None
    ) -> None:
        self.asked.append(
            AskedOfController("delete_topics", topics, on_done, timeout_ms, admit=admit)
        )

    def create_partitions(
        self, topics: Any, *, validate_only: bool, timeout_ms: int, on_done: Any, admit: Any = None
    ) -> None:
        self.asked.append(
            AskedOfController(
                "create_partitions", topics, on_done, timeout_ms, validate_only, admit
            )
        )

    def elect_leaders(self, election: Any, partitions: Any, timeout_ms: int, on_done: Any) -> None:
        self.asked.append(
            AskedOfController("elect_leaders", (election, partitions), on_done, timeout_ms)
        )

    def alter_reassignments(
        self, asked: Any, *, may_change_factor: bool, timeout_ms: int, on_done: Any
    ) -> None:
        self.asked.append(
            AskedOfController(
                "alter_reassignments",
                asked,
                on_done,
                timeout_ms,
                may_change_factor=may_change_factor,
            )
        )

    def reassigning(self) -> Any:
        return sorted(self.ongoing)

    def reassignment(self, partition: Any) -> Any:
        return self.ongoing.get(partition)

    def on_topics_missed(self, request: Any, reply: Any) -> None:
        self.asked.append(AskedOfController("on_topics_missed", request, reply, 0))

    def on_isr_proposed(self, request: Any, reply: Any) -> None:
        self.asked.append(AskedOfController("on_isr_proposed", request, reply, 0))

    def on_controlled_shutdown(self, request: Any, reply: Any) -> None:
        self.asked.append(AskedOfController("controlled_shutdown", request, reply, 0))

    def take(self) -> AskedOfController:
        """The only thing asked since the last call."""
        (asked,) = self.asked
        self.asked.clear()
        return asked
