"""Applies writes to the tree, one alone or several atomically, and makes their answers.

Pure; the returned changes are already in the tree and have still to be journaled.
"""

from collections.abc import Sequence

from cluster.coordinator.registry.server.planning import Caller, plan_write
from cluster.coordinator.registry.server.replies import StepResult
from cluster.coordinator.registry.server.requests import Step, WatchableRequest, WriteRequest
from cluster.coordinator.registry.server.transactions import (
    AclChanged,
    DataChanged,
    NodeCreated,
    TreeChange,
)
from cluster.coordinator.registry.server.tree import Undo, ZnodeTree
from cluster.coordinator.registry.wire.codes import Operation, OperationRefused, RegistryError
from cluster.coordinator.registry.wire.jute import encode_string
from cluster.model.clocks import WallMs


def execute(
    tree: ZnodeTree,
    operation: Operation,
    request: WriteRequest,
    caller: Caller,
    zxid: int,
    wall_ms: WallMs,
) -> tuple[TreeChange | None, bytes]:
    """Apply one write; returns the change, None for a check, and the record of the answer. Raises
    OperationRefused; then nothing has changed.
    """
    change = plan_write(tree, request, caller)
    if change is not None:
        tree.apply(change, zxid, wall_ms)
    return change, _record_of(tree, operation, change)


def execute_all(
    tree: ZnodeTree, steps: Sequence[Step], caller: Caller, zxid: int, wall_ms: WallMs
) -> tuple[list[TreeChange], list[StepResult]]:
    """Apply all writes of a multi, each on the result of those before it, or none of them.

    After a failure there are no changes, and every step's result is an error: OK before the failed
    step (it was reverted), the step's own error, and RUNTIME_INCONSISTENCY after it.
    """
    changes: list[TreeChange] = []
    undos: list[Undo] = []
    results: list[StepResult] = []
    for index, (operation, request) in enumerate(steps):
        if isinstance(request, WatchableRequest):
            continue
        try:
            change = plan_write(tree, request, caller)
        except OperationRefused as refused:
            for undo in reversed(undos):
                undo()
            return [], _failure(index, len(steps), refused.code)
        if change is not None:
            undos.append(tree.apply(change, zxid, wall_ms))
            changes.append(change)
        results.append(_result_of(tree, operation, change))
    return changes, results


def _failure(failed_index: int, step_count: int, code: RegistryError) -> list[StepResult]:
    return [
        StepResult(
            Operation.ERROR,
            RegistryError.OK
            if index < failed_index
            else code
            if index == failed_index
            else RegistryError.RUNTIME_INCONSISTENCY,
            b"",
        )
        for index in range(step_count)
    ]


def _result_of(tree: ZnodeTree, operation: Operation, change: TreeChange | None) -> StepResult:
    if operation is Operation.CREATE2:
        operation = Operation.CREATE  # inside a multi it is answered as create is
    record = _record_of(tree, operation, change)
    if operation in (Operation.CREATE_CONTAINER, Operation.CREATE_TTL):
        operation = Operation.CREATE2  # their answers inside a multi carry create2's number
    return StepResult(operation, RegistryError.OK, record)


def _record_of(tree: ZnodeTree, operation: Operation, change: TreeChange | None) -> bytes:
    match change:
        case NodeCreated(path):
            record = encode_string(path)
            if operation is not Operation.CREATE:
                record += tree.get(path).encode_stat()
            return record
        case DataChanged(path) | AclChanged(path):
            return tree.get(path).encode_stat()
        case _:
            return b""
