"""Changes of topics' configs, as operations of the controller's driver."""

import logging
from collections.abc import Callable

from cluster.coordinator.controller.control_link import Reply
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.topic_outcomes import topic_outcomes
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome, Plan
from cluster.protocol.peer.control import AlterTopicConfigs

log = logging.getLogger(__name__)


class ConfigRequests:
    """Serves `AlterTopicConfigs`; replies when every live broker has the new configs."""

    def __init__(self, driver: ControllerDriver) -> None:
        self._driver = driver

    def on_request(self, request: AlterTopicConfigs, reply: Reply) -> None:
        """A broker's request."""

        def refuse() -> None:
            outcome = Outcome(ErrorCode.not_controller, "the controller has just moved")
            reply(topic_outcomes({each.topic: outcome for each in request.alterations}))

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan, outcomes = controller.alter_topic_configs(request.alterations)
            if request.validate_only:
                plan = Plan()

            def finish(is_done: bool) -> None:
                if not is_done:
                    refuse()
                    return
                for name, configs in plan.configured.items():
                    log.info("configs of topic %s: %s", name, configs)
                self._driver.updates.tell_everyone(
                    plan, set(), lambda _do_all_know: reply(topic_outcomes(outcomes))
                )

            return plan, finish

        self._driver.enqueue(operation, refuse)
