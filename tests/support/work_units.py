"""What pytest's processes take as one piece of work, and which pieces come first.

A pytest plugin that bin/test loads. Tests that share a fixture of their module are one piece, so
that the fixture (mostly a cluster or a JVM) is made once and not in every process. A module in
`tests/unit`, `tests/wire` and `tests/tidy` is one piece too: most of its tests take a millisecond,
less than handing them out one by one. Any other test is a piece by itself. Pieces that take
longest come first, so that none of them runs alone at the end. The others keep their order, which
`-p randomly` shuffles, but modules that compute are spread among tests that wait for a cluster.
"""

import functools
import re
from collections import OrderedDict
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT: Final = Path(__file__).parents[2]

LONGEST: Final = (
    "tests/compat/test_dashboard_page.py",
    "tests/compat/test_topics_page.py",
    "tests/compat/test_groups_page.py",
    "tests/integration/test_compiled.py",
    "tests/compat/test_window_readers.py",
    "tests/compat/test_prometheus.py",
    "tests/compat/test_report_page.py",
    "tests/integration/test_rollup_follow.py::test_following_rollup_killed_in_each_phase_equals_plain_python",
    "tests/integration/test_rollup.py",
    "tests/compat/test_history_page.py",
    "tests/integration/test_demo.py::test_demo_runs_in_its_short_form",
    "tests/integration/test_rollup_on_spark_clusters.py",
    "tests/integration/test_installed_command.py",
    "tests/integration/test_hostile_memory.py",
    "tests/integration/test_secure_start.py",
    "tests/compat/test_secure_cluster.py",
    "tests/compat/test_listeners_of_clients.py",
    "tests/compat/test_transactions.py",
    "tests/compat/test_kafka_streams.py::test_each_input_counts_once_over_kills_under_exactly_once",
    "tests/compat/test_spark_sink.py::test_committed_records_are_copied_over_kills_of_spark_and_of_a_leader",
    "tests/compat/test_consumer_protocol.py",
    "tests/compat/test_java_copiers.py::test_a_copier_has_each_effect_once_whichever_broker_is_killed",
    "tests/compat/test_kafka_connect.py::test_lines_of_a_file_are_written_once_over_kills_of_worker_and_leader",
    "tests/compat/test_group_members.py",
    "tests/compat/test_go_clients.py",
    "tests/compat/test_transaction_errors.py",
    "tests/compat/test_group_errors.py",
    "tests/compat/test_kafka_tools.py",
    "tests/compat/test_leader_elections.py",
    "tests/compat/test_reassignments.py",
    "tests/compat/test_read_replicas.py",
    "tests/compat/test_sasl_clients.py",
    "tests/compat/test_zookeeper_logins.py",
    "tests/compat/test_user_quotas.py",
    "tests/compat/test_tls_clients.py",
    "tests/compat/test_kafka_acls.py",
    "tests/compat/test_kafka_groups.py",
    "tests/compat/test_refused_records.py",
    "tests/integration/test_import_log.py",
    "tests/integration/test_metrics.py",
    "tests/integration/test_broker_configs.py",
    "tests/integration/test_rollup_follow.py::test_following_rollup_counts_lost_records_and_adds_new_ones_until_ctrl_c",
    "tests/unit/analytics/windows/test_directory.py",
    "tests/unit/analytics/reports/test_demand.py",
    "tests/tidy/test_layers.py::test_each_module_can_be_imported_by_itself",
)
"""Pieces of work that take 15 seconds or longer, the longest first."""

_SHORT: Final = ("tests/unit/", "tests/wire/", "tests/tidy/")

_SHARES: Final = re.compile(r"""fixture\([^)]*scope=["'](?:module|session)["']""")


@functools.cache
def is_one_piece(module: Path) -> bool:
    """Whether tests of this module share a fixture that the module makes once."""
    return _SHARES.search(module.read_text()) is not None


def piece_of(nodeid: str) -> str:
    """The piece of work to which a test belongs: its module or itself."""
    if nodeid in LONGEST:
        return nodeid
    module = nodeid.partition("::")[0]
    return module if module.startswith(_SHORT) or is_one_piece(ROOT / module) else nodeid


def in_order(pieces: Sequence[str]) -> list[str]:
    """The longest first, then the short modules spread evenly among the others."""
    longest = [piece for piece in LONGEST if piece in pieces]
    rest = [piece for piece in pieces if piece not in LONGEST]
    short = [piece for piece in rest if piece.startswith(_SHORT)]
    waiting = [piece for piece in rest if not piece.startswith(_SHORT)]
    placed = [
        (place / len(some), piece) for some in (short, waiting) for place, piece in enumerate(some)
    ]
    return [*longest, *(piece for _, piece in sorted(placed, key=itemgetter(0)))]


class PiecesOfWork(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands each process a piece when it has at most two tests left."""

    workqueue: "OrderedDict[str, dict[str, bool]]"
    assigned_work: dict[WorkerController, dict[str, dict[str, bool]]]
    _is_ordered = False

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget a piece that is done: after each test, all tests of pieces kept are counted."""
        super().mark_test_complete(node, item_index, duration)
        piece = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][piece].values()):
            del self.assigned_work[node][piece]

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._is_ordered:
            self._is_ordered = True
            for piece in in_order(list(self.workqueue)):
                self.workqueue.move_to_end(piece)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> PiecesOfWork:
    """Whatever `--dist` says."""
    config.option.loadscopereorder = False
    return PiecesOfWork(config, log)
