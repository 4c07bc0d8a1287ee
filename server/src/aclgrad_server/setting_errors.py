"""What is said of settings that are refused: where they stand, what is wrong, and what would be right."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from aclgrad_server.settings import Settings, variable_of

_REMEDIES = {
    "int_parsing": "give an integer",
    "int_type": "give an integer",
    "int_from_float": "give an integer",
    "float_parsing": "give a number",
    "float_type": "give a number",
    "finite_number": "give a finite number",
    "bool_parsing": "give true or false",
    "bool_type": "give true or false",
    "string_type": "give text",
    "path_type": "give the path of a file",
    "tuple_type": "give a list",
    "too_short": "give at least one",
    "literal_error": "give {expected}",
    "greater_than": "give more than {gt}",
    "greater_than_equal": "give at least {ge}",
    "less_than_equal": "give at most {le}",
    "string_pattern_mismatch": "give text that matches {pattern}",
}


def lines_of(error: ValidationError, flags: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Returns one line for each setting that is wrong, with the flag, the variable or the file that it is in."""
    return [_line(each, flags, environment) for each in error.errors()]


def _line(error: ErrorDetails, flags: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"{_file(flags, environment)} has the setting {name!r}{_unknown(name)}"
    is_named_by_itself = error["type"] == "value_error"
    if name in flags:
        where, equals = f"--{name.replace('_', '-')}", "is"
    elif environment.get(variable_of(name)):
        where, equals = variable_of(name), "is"
    else:
        where, equals = f"{_file(flags, environment)} has {name}", "="
    if is_named_by_itself:
        return f"{where}: {error['ctx']['error']}"
    remedy = _REMEDIES.get(error["type"], error["msg"]).format_map(error.get("ctx", {}))
    return f"{where} {equals} {error['input']!r}; {remedy}"


def _file(flags: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    return str(flags.get("config") or environment.get(variable_of("config")))


def _unknown(name: str) -> str:
    with_underscores = name.replace("-", "_")
    if with_underscores in Settings.model_fields:
        return f"; write it {with_underscores}"
    similar = difflib.get_close_matches(with_underscores, Settings.model_fields, 1)
    return f", which does not exist; {f'did you mean {similar[0]!r}?' if similar else 'see --help'}"
