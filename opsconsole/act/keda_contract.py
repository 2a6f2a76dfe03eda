"""KEDA's external scaler contract as message classes, made from a table instead of generated code.

The contract is `externalscaler.proto` of KEDA 2.21 (github.com/kedacore/keda, pkg/scalers/externalscaler, Apache-2.0);
a test compiles the published file and holds this table to it. Generated code would bind the package to one major
version of protobuf. Trap: field numbers are the contract, names only its comment.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "externalscaler"
SERVICE = f"{PACKAGE}.ExternalScaler"
_KIND = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _KIND.TYPE_STRING,
    "bool": _KIND.TYPE_BOOL,
    "int64": _KIND.TYPE_INT64,
    "double": _KIND.TYPE_DOUBLE,
}
# message -> (number, name, type); `*` repeats, `map` is a map of strings
MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    "ScaledObjectRef": ((1, "name", "string"), (2, "namespace", "string"), (3, "scalerMetadata", "map")),
    "IsActiveResponse": ((1, "result", "bool"),),
    "MetricSpec": ((1, "metricName", "string"), (2, "targetSize", "int64"), (3, "targetSizeFloat", "double")),
    "GetMetricSpecResponse": ((1, "metricSpecs", "*MetricSpec"),),
    "GetMetricsRequest": ((1, "scaledObjectRef", "ScaledObjectRef"), (2, "metricName", "string")),
    "MetricValue": ((1, "metricName", "string"), (2, "metricValue", "int64"), (3, "metricValueFloat", "double")),
    "GetMetricsResponse": ((1, "metricValues", "*MetricValue"),),
}


def describe() -> descriptor_pb2.FileDescriptorProto:
    """The messages as protobuf describes a file."""
    file = descriptor_pb2.FileDescriptorProto(name="opsconsole/externalscaler.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            _add(message, number, field, kind)
    return file


def _add(message: Any, number: int, field: str, kind: str) -> None:
    added = message.field.add(name=field, number=number, label=_KIND.LABEL_OPTIONAL)
    if kind in _SCALARS:
        added.type = _SCALARS[kind]
        return
    added.type = _KIND.TYPE_MESSAGE
    if kind == "map":
        entry = message.nested_type.add(name=f"{field[0].upper()}{field[1:]}Entry")
        entry.options.map_entry = True
        _add(entry, 1, "key", "string")
        _add(entry, 2, "value", "string")
        kind = f"*{message.name}.{entry.name}"
    if kind.startswith("*"):
        added.label = _KIND.LABEL_REPEATED
    added.type_name = f".{PACKAGE}.{kind.removeprefix('*')}"


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()  # our own: another user of the contract may be in this process
    pool.Add(describe())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


_MADE = _classes()
ScaledObjectRef = _MADE["ScaledObjectRef"]
IsActiveResponse = _MADE["IsActiveResponse"]
MetricSpec = _MADE["MetricSpec"]
GetMetricSpecResponse = _MADE["GetMetricSpecResponse"]
GetMetricsRequest = _MADE["GetMetricsRequest"]
MetricValue = _MADE["MetricValue"]
GetMetricsResponse = _MADE["GetMetricsResponse"]
