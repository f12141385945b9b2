"""Leader epochs: assignment, truncation, and end offsets as KIP-101 and KIP-320 require."""

from pathlib import Path

import pytest

from cluster.log.leader_epochs import LeaderEpochs
from cluster.model.ids import LeaderEpoch, Offset

END = Offset(100)


def epochs_of(directory: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(directory)
    for epoch, start in entries:
        epochs.begin(LeaderEpoch(epoch), Offset(start))
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),  # older than all known epochs: the start of the first one
        (2, (2, 30)),
        (3, (2, 30)),  # unknown between two: the earlier one, which ends where the next begins
        (4, (4, 60)),
        (7, (7, 100)),  # the latest ends at the log end
        (8, (-1, -1)),  # newer than all: unknown
    ],
)
def test_end_offsets(tmp_path: Path, asked: int, answer: tuple[int, int]) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 30), (7, 60))
    assert epochs.end_offset(LeaderEpoch(asked), END) == answer


def test_no_epochs_no_answer(tmp_path: Path) -> None:
    assert epochs_of(tmp_path).end_offset(LeaderEpoch(0), END) == (-1, -1)


def test_begin_replaces_an_epoch_without_records(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (0, 0), (1, 10), (2, 10))
    assert epochs.entries == [(0, 0), (2, 10)]
    assert epochs.end_offset(LeaderEpoch(1), END) == (0, 10)


def test_the_same_epoch_begins_once(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (3, 5), (3, 9)).entries == [(3, 5)]


def test_begin_removes_contradicted_epochs(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (1, 10), (5, 50), (3, 40)).entries == [(1, 10), (3, 40)]
    assert epochs_of(tmp_path, (1, 10), (5, 50), (6, 5)).entries == [(6, 5)]


def test_truncation_from_both_ends(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (0, 0), (1, 10), (2, 20), (3, 30))
    epochs.truncate_from_end(Offset(30))
    assert (epochs.entries, epochs.latest) == ([(0, 0), (1, 10), (2, 20)], 2)
    epochs.truncate_from_start(Offset(15))
    assert epochs.entries == [(1, 15), (2, 20)]
    epochs.truncate_from_start(Offset(20))
    assert epochs.entries == [(2, 20)]
    epochs.truncate_from_start(Offset(3))
    assert epochs.entries == [(2, 20)]
    epochs.truncate_from_end(Offset(20))
    assert (epochs.entries, epochs.latest) == ([], -1)


def test_epoch_of_an_offset(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (1, 10), (4, 20))
    assert [epochs.epoch_at(Offset(at)) for at in (9, 10, 19, 20)] == [-1, 1, 1, 4]


def test_the_file_is_kafkas_and_follows_each_change(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (0, 0), (3, 17))
    assert epochs.path.read_text() == "0\n2\n0 0\n3 17\n"
    assert LeaderEpochs.load(tmp_path).entries == [(0, 0), (3, 17)]
    epochs.clear()
    assert epochs.path.read_text() == "0\n0\n"
    assert LeaderEpochs.load(tmp_path).latest == -1
