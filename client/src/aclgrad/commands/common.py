"""Shared by the commands: settings of a client, names of operators, and what JSON has for values."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypeVar

from aclgrad._client.settings.environment import unless_set
from aclgrad.errors import UnknownOperatorError
from aclgrad.operators.spec import AttributeKind, OperatorKind
from aclgrad.tensors import DType

Listed = TypeVar("Listed")


def connection(target: str) -> dict[str, Any]:
    """Returns the settings of a command's client, which waits less long for a server than other clients."""
    return {"target": target, **unless_set(connect_timeout_s=5.0)}


def chosen(name: str, listed: Mapping[str, Listed], where: str) -> Listed:
    """Returns the value of this name; raises UnknownOperatorError with similar names."""
    if name not in listed:
        meant = [each for each in listed if name in each] or get_close_matches(name, listed)
        remedy = f"call one of {', '.join(meant)}" if meant else "see `aclgrad operators`"
        raise UnknownOperatorError.at("operator", f"{name} is not {where}", remedy)
    return listed[name]


def plain(value: Any) -> Any:
    """Returns the JSON form of a client's value."""
    match value:
        case DType():
            return value.name
        case AttributeKind() | OperatorKind():
            return value.name.lower()
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value
