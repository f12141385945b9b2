"""The events of a cluster as lines for people. Pure, except for the time zone of the machine."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def event_line(event: Mapping[str, Any], *, with_day: bool = True) -> str:
    """One event: time in this machine's zone, kind, subject, text, and the cause if it adds one."""
    at = datetime.fromtimestamp(event["ts"] / 1000).astimezone()
    shape = "%Y-%m-%d %H:%M:%S" if with_day else "%H:%M:%S"
    moment = f"{at.strftime(shape)}.{at.microsecond // 1000:03}"
    cause = event.get("cause")
    after = "" if cause is None or cause in event["text"] else f" ({cause})"
    subject = event.get("subject", event.get("process", ""))
    return f"{moment}  {event.get('kind', ''):<10}  {subject:<10} {event['text']}{after}"
