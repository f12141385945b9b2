"""Settings that choose how the quota core measures."""

import pytest

from cluster.brokers.options import quota_windows
from cluster.brokers.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.config.settings import broker_settings
from cluster.model.errors import UserError


def test_windows_are_eleven_seconds_without_credit_unless_set():
    assert quota_windows(broker_settings({})) == WindowOptions(11, 1_000, WindowCredit.ELAPSED)


def test_kafkas_credit_and_other_windows():
    settings = broker_settings(
        {
            "milena.quota.window.credit": "kafka",
            "quota.window.num": "5",
            "quota.window.size.seconds": "2",
        }
    )
    assert quota_windows(settings) == WindowOptions(5, 2_000, WindowCredit.KAFKA)


def test_another_credit_is_refused():
    with pytest.raises(UserError, match="elapsed or kafka"):
        broker_settings({"milena.quota.window.credit": "much"})
