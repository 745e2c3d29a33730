"""JSON schemas of the fields that our manifests may use, after those of KEDA 2 and of autoscaling/v2.

Their definitions are far larger. An unknown field is an error here, because Kubernetes drops it without a word.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
SECONDS: Schema = {"type": "integer", "minimum": 1}
# The values of a trigger are strings, numbers and booleans too: KEDA's definition refuses all else.
NUMBER: Schema = {"type": "string", "pattern": r"^\d+(\.\d+)?$"}
BOOLEAN: Schema = {"enum": ["true", "false"]}


def fields(required: Schema, **optional: Schema) -> Schema:
    """Return the schema of an object that has exactly these fields."""
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _resource(version: str, kind: str, spec: Schema) -> Schema:
    metadata = fields({"name": {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}})
    return fields({"apiVersion": {"const": version}, "kind": {"const": kind}, "metadata": metadata, "spec": spec})


_METRICS_API = fields(
    {"url": {"type": "string", "pattern": "^https?://"}, "valueLocation": TEXT, "targetValue": NUMBER},
    activationTargetValue=NUMBER,
    authMode={"enum": ["apiKey", "basic", "tls", "bearer"]},
    format={"enum": ["json", "xml", "yaml", "prometheus"]},
    unsafeSsl=BOOLEAN,
)
_PROMETHEUS = fields(
    {"serverAddress": {"type": "string", "pattern": "^https?://"}, "query": TEXT, "threshold": NUMBER},
    activationThreshold=NUMBER,
    ignoreNullValues=BOOLEAN,
    unsafeSsl=BOOLEAN,
)


def _trigger(kind: str, metadata: Schema) -> Schema:
    return fields(
        {"type": {"const": kind}, "metadata": metadata},
        authenticationRef=fields({"name": TEXT}, kind=TEXT),
        metricType={"enum": ["AverageValue", "Value"]},
        name=TEXT,
    )


SCALED_OBJECT = _resource(
    "keda.sh/v1alpha1",
    "ScaledObject",
    fields(
        {
            "scaleTargetRef": fields({"name": TEXT}, apiVersion=TEXT, kind=TEXT),
            "triggers": {
                "type": "array",
                "minItems": 1,
                "items": {"oneOf": [_trigger("metrics-api", _METRICS_API), _trigger("prometheus", _PROMETHEUS)]},
            },
        },
        minReplicaCount=COUNT,
        maxReplicaCount=COUNT,
        pollingInterval=SECONDS,
        cooldownPeriod=SECONDS,
    ),
)
TRIGGER_AUTHENTICATION = _resource(
    "keda.sh/v1alpha1",
    "TriggerAuthentication",
    fields(
        {"secretTargetRef": {"type": "array", "items": fields({"parameter": TEXT, "name": TEXT, "key": TEXT})}},
    ),
)
_POLICY = fields({"type": {"enum": ["Percent", "Pods"]}, "value": SECONDS, "periodSeconds": SECONDS})
_BEHAVIOUR = fields(
    {},
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    policies={"type": "array", "items": _POLICY, "minItems": 1},
    selectPolicy={"enum": ["Max", "Min", "Disabled"]},
)
_EXTERNAL = fields(
    {
        "metric": fields({"name": TEXT}, selector=fields({"matchLabels": {"type": "object"}})),
        "target": {
            "oneOf": [
                fields({"type": {"const": "AverageValue"}, "averageValue": NUMBER}),
                fields({"type": {"const": "Value"}, "value": NUMBER}),
            ]
        },
    }
)
AUTOSCALER = _resource(
    "autoscaling/v2",
    "HorizontalPodAutoscaler",
    fields(
        {
            "scaleTargetRef": fields({"apiVersion": {"const": "apps/v1"}, "kind": TEXT, "name": TEXT}),
            "maxReplicas": SECONDS,
            "metrics": {"type": "array", "items": fields({"type": {"const": "External"}, "external": _EXTERNAL})},
        },
        minReplicas=SECONDS,
        behavior=fields({}, scaleDown=_BEHAVIOUR, scaleUp=_BEHAVIOUR),
    ),
)
SCHEMAS = {
    schema["properties"]["kind"]["const"]: schema for schema in (SCALED_OBJECT, TRIGGER_AUTHENTICATION, AUTOSCALER)
}
