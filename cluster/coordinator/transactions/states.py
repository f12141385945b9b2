"""What each state of a transactional id does with each event: the one table. Pure.

Kafka: `TransactionState`, and the tables in `TransactionCoordinator`. The state `PrepareEpochFence`
is never stored: it stands for a fence whose record is being appended.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from types import MappingProxyType
from typing import Final


class TransactionState(IntEnum):
    """The states with the numbers that records have; `label` is Kafka's name."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name in answers and commands, such as `PrepareCommit`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def is_preparing(self) -> bool:
        """Whether the outcome is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self in _IDLE


_IDLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)


class Event(Enum):
    """What happens to a transactional id."""

    INIT = auto()
    """InitProducerId: a producer starts, or continues after an error."""
    ADD = auto()
    """A partition, or a group's offsets, become part of the transaction."""
    COMMIT = auto()
    ABORT = auto()
    COMMIT_AGAIN = auto()
    """EndTxn of the epoch before the current one: a client repeats a request whose answer it has
    not got (transaction version 2, which bumps the epoch with each end)."""
    ABORT_AGAIN = auto()
    COMMIT_V1 = auto()
    """EndTxn of a client before version 2: it keeps the epoch, so repetitions look alike."""
    ABORT_V1 = auto()
    TIMEOUT = auto()
    MARKED = auto()
    """Every partition has the marker."""
    EXPIRY = auto()
    """Nothing has happened for `transactional.id.expiration.ms`."""


class Action(Enum):
    """What is done."""

    BUMP = auto()
    """Store the next producer epoch, or a new producer id after the last one."""
    FENCE = auto()
    """Abort in a higher epoch, so that the producer of the current one is refused."""
    BEGIN = auto()
    ADD = auto()
    PREPARE = auto()
    """Store the outcome, then write markers."""
    ABORT_EMPTY = auto()
    """Store the abort of a transaction without partitions, for its new epoch."""
    COMPLETE = auto()
    REMOVE = auto()
    WAIT = auto()
    """Another transition comes first: CONCURRENT_TRANSACTIONS if that takes long."""
    CONFIRM = auto()
    """It is done already."""
    REFUSE = auto()
    """INVALID_TXN_STATE."""
    FENCED = auto()
    """PRODUCER_FENCED."""
    IGNORE = auto()


def _row(**actions: Action) -> Mapping[Event, Action]:
    return MappingProxyType({Event[name.upper()]: action for name, action in actions.items()})


TABLE: Final[Mapping[TransactionState, Mapping[Event, Action]]] = MappingProxyType(
    {
        TransactionState.EMPTY: _row(
            init=Action.BUMP,
            add=Action.BEGIN,
            commit=Action.REFUSE,
            abort=Action.ABORT_EMPTY,
            commit_again=Action.FENCED,
            abort_again=Action.FENCED,
            commit_v1=Action.REFUSE,
            abort_v1=Action.REFUSE,
            timeout=Action.IGNORE,
            marked=Action.IGNORE,
            expiry=Action.REMOVE,
        ),
        TransactionState.ONGOING: _row(
            init=Action.FENCE,
            add=Action.ADD,
            commit=Action.PREPARE,
            abort=Action.PREPARE,
            commit_again=Action.FENCED,
            abort_again=Action.FENCED,
            commit_v1=Action.PREPARE,
            abort_v1=Action.PREPARE,
            timeout=Action.FENCE,
            marked=Action.IGNORE,
            expiry=Action.IGNORE,
        ),
        TransactionState.PREPARE_COMMIT: _row(
            init=Action.WAIT,
            add=Action.WAIT,
            commit=Action.WAIT,
            abort=Action.WAIT,
            commit_again=Action.WAIT,
            abort_again=Action.WAIT,
            commit_v1=Action.WAIT,
            abort_v1=Action.WAIT,
            timeout=Action.IGNORE,
            marked=Action.COMPLETE,
            expiry=Action.IGNORE,
        ),
        TransactionState.PREPARE_ABORT: _row(
            init=Action.WAIT,
            add=Action.WAIT,
            commit=Action.WAIT,
            abort=Action.WAIT,
            commit_again=Action.WAIT,
            abort_again=Action.WAIT,
            commit_v1=Action.WAIT,
            abort_v1=Action.WAIT,
            timeout=Action.IGNORE,
            marked=Action.COMPLETE,
            expiry=Action.IGNORE,
        ),
        TransactionState.COMPLETE_COMMIT: _row(
            init=Action.BUMP,
            add=Action.BEGIN,
            commit=Action.REFUSE,
            abort=Action.ABORT_EMPTY,
            commit_again=Action.CONFIRM,
            abort_again=Action.REFUSE,
            commit_v1=Action.CONFIRM,
            abort_v1=Action.REFUSE,
            timeout=Action.IGNORE,
            marked=Action.IGNORE,
            expiry=Action.REMOVE,
        ),
        TransactionState.COMPLETE_ABORT: _row(
            init=Action.BUMP,
            add=Action.BEGIN,
            commit=Action.REFUSE,
            abort=Action.ABORT_EMPTY,
            commit_again=Action.REFUSE,
            abort_again=Action.CONFIRM,
            commit_v1=Action.REFUSE,
            abort_v1=Action.CONFIRM,
            timeout=Action.IGNORE,
            marked=Action.IGNORE,
            expiry=Action.REMOVE,
        ),
    }
)
"""States that are missing are never those of a stored transaction."""
