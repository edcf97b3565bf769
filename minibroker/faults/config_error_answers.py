"""Answers that say nothing but an error, for the APIs of configurations and client metrics: see `error_answers`."""

from collections.abc import Callable
from typing import Any, Final

from minibroker.faults.declarations import Answering, alone, messages_of
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import ZERO_UUID


def _of_resources(
    module: str, response: str, field: str, result: str, *, explains: bool = False, **others: Callable[[], Any]
) -> Any:
    """Answers that say a code of each resource that the request names; `explains` adds the sentence that says it."""

    def answer(request: Any, _version: int, code: ErrorCode) -> Any:
        messages = messages_of(module)
        results = [
            getattr(messages, result)(
                error_code=code,
                error_message=code.meaning if explains else None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                **{name: make() for name, make in others.items()},
            )
            for each in request.resources
        ]
        return getattr(messages, response)(**{field: results})

    return answer


def _get_telemetry_subscriptions(_request: Any, _version: int, code: ErrorCode) -> Any:
    messages = messages_of("get_telemetry_subscriptions")
    return messages.GetTelemetrySubscriptionsResponse(
        error_code=code,
        client_instance_id=ZERO_UUID,
        subscription_id=0,
        accepted_compression_types=[],
        push_interval_ms=0,
        telemetry_max_bytes=0,
        delta_temporality=False,
        requested_metrics=[],
    )


CONFIG_ANSWERS: Final[dict[str, Answering]] = {
    "DescribeConfigs": _of_resources(
        "describe_configs", "DescribeConfigsResponse", "results", "DescribeConfigsResult", explains=True, configs=list
    ),
    "AlterConfigs": _of_resources("alter_configs", "AlterConfigsResponse", "responses", "AlterConfigsResourceResponse"),
    "IncrementalAlterConfigs": _of_resources(
        "incremental_alter_configs", "IncrementalAlterConfigsResponse", "responses", "AlterConfigsResourceResponse"
    ),
    "GetTelemetrySubscriptions": _get_telemetry_subscriptions,
    "PushTelemetry": alone("push_telemetry", "PushTelemetryResponse"),
    "ListConfigResources": alone("list_config_resources", "ListConfigResourcesResponse", config_resources=list),
}
