"""The cause of a failure decides whether its directory is given up, however it was raised."""

import errno
from collections.abc import Callable

import pytest

from cluster.log.directory_state import concerns_a_name, has_failed
from cluster.model.errors import StorageFailed


def with_cause(code: int) -> None:
    try:
        raise OSError(code, "refused")
    except OSError as error:
        raise StorageFailed("cannot write") from error


def as_compiled(code: int) -> None:
    """Without a cause, as in a module that mypyc compiles."""
    try:
        raise OSError(code, "refused")
    except OSError:
        raise StorageFailed("cannot write")  # noqa: B904


@pytest.mark.parametrize("fail", [with_cause, as_compiled])
@pytest.mark.parametrize(
    ("code", "is_given_up", "is_of_a_name"),
    [(errno.EROFS, True, False), (errno.ENOSPC, False, False), (errno.ENOENT, True, True)],
)
def test_the_cause_decides(
    fail: Callable[[int], None], code: int, is_given_up: bool, is_of_a_name: bool
) -> None:
    with pytest.raises(StorageFailed) as raised:
        fail(code)
    assert has_failed(raised.value) is is_given_up
    assert concerns_a_name(raised.value) is is_of_a_name


def test_a_failure_without_a_cause_is_none_of_the_directory() -> None:
    try:
        raise OSError(errno.EROFS, "refused")
    except OSError:
        with pytest.raises(StorageFailed) as raised:
            raise StorageFailed("an old message format") from None
    assert not has_failed(raised.value)
