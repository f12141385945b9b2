"""Resource limits that the operating system sets for this process."""

import logging
import resource

log = logging.getLogger(__name__)


def raise_descriptor_limit() -> int:
    """Raise the limit of open files to its maximum and return it.

    A partition needs two descriptors, a client one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            log.info("cannot raise the limit of open files above %d", soft)
            return soft
    return hard
