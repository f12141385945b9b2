"""Limits of this process that the operating system sets."""

import logging
import resource

log = logging.getLogger(__name__)


def raise_descriptor_limit() -> int:
    """Allow as many open files as we may have; the limit. A partition needs two, a client one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            log.info("the limit of open files stays at %d", soft)
            return soft
    return hard
