"""Changes of topics' configs, as operations of the controller's driver."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster.coordinator.controller.control_link import Message, Reply
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.message_fields import error_code, mapped, text
from cluster.model.errors import ErrorCode, PeerError
from cluster.model.plan import Outcome, Plan
from cluster.model.topics import TopicAlteration

log = logging.getLogger(__name__)

REQUEST_KIND: Final = "alter_topic_configs"


def encode_alterations(alterations: Sequence[TopicAlteration], *, validate_only: bool) -> Message:
    """What a broker asks of the controller."""
    return {
        "topics": [(each.topic, each.is_whole, dict(each.values)) for each in alterations],
        "validate_only": validate_only,
    }


def decode_outcomes(reply: Message) -> dict[str, Outcome]:
    """The controller's answer: the outcome by topic. Raises PeerError when it is malformed."""
    try:
        return {
            text(name): Outcome(error_code(code), None if detail is None else text(detail))
            for name, code, detail in reply["outcomes"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise PeerError(f"malformed answer to {REQUEST_KIND}: {error!r}") from error


class ConfigRequests:
    """Serves `alter_topic_configs`; replies when every live broker has the new configs."""

    def __init__(self, driver: ControllerDriver) -> None:
        self._driver = driver

    def on_request(self, body: Message, reply: Reply) -> None:
        """A broker's request. Raises PeerError when it is malformed."""
        try:
            alterations = [
                TopicAlteration(text(name), bool(is_whole), _values_of(values))
                for name, is_whole, values in body["topics"]
            ]
            validate_only = bool(body["validate_only"])
        except (KeyError, TypeError, ValueError) as error:
            raise PeerError(f"malformed {REQUEST_KIND}: {error!r}") from error

        def refuse() -> None:
            outcome = Outcome(ErrorCode.not_controller, "the controller has just moved")
            reply(_encoded({each.topic: outcome for each in alterations}))

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan, outcomes = controller.alter_topic_configs(alterations)
            if validate_only:
                plan = Plan()

            def finish(is_done: bool) -> None:
                if not is_done:
                    refuse()
                    return
                for name, configs in plan.configured.items():
                    log.info("configs of topic %s: %s", name, configs)
                self._driver.updates.tell_everyone(
                    plan, set(), lambda _do_all_know: reply(_encoded(outcomes))
                )

            return plan, finish

        self._driver.enqueue(operation, refuse)


def _values_of(values: Any) -> dict[str, str | None]:
    return {
        text(key): None if value is None else text(value) for key, value in mapped(values).items()
    }


def _encoded(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    return {"outcomes": [(name, int(o.code), o.detail) for name, o in outcomes.items()]}
