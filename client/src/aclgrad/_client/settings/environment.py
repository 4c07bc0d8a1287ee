"""The settings that a client takes from the environment: one table of variables."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from aclgrad._client.settings.credentials import VARIABLES as CREDENTIALS
from aclgrad._client.settings.credentials import credentials_from
from aclgrad.errors import InvalidSettingError

_WORDS: Final = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable: its setting, and how its text is read; `form` describes valid texts."""

    name: str
    setting: str
    read: Callable[[str], Any]
    form: str


VARIABLES: Final = (
    Variable("ACLGRAD_TARGET", "target", str, "host:port or unix:/path"),
    Variable(
        "ACLGRAD_TIMEOUT_S",
        "timeout_s",
        lambda text: None if text.lower() == "none" else float(text),
        "a number of seconds, or none for no limit",
    ),
    Variable("ACLGRAD_CONNECT_TIMEOUT_S", "connect_timeout_s", float, "a number of seconds"),
    Variable("ACLGRAD_RETRIES", "retries", int, "an integer of 0 or more"),
    Variable("ACLGRAD_MAX_MESSAGE_BYTES", "max_message_bytes", int, "a number of bytes"),
    Variable("ACLGRAD_SHARED_MEMORY", "shared_memory", lambda text: _WORDS[text.lower()], "true or false"),
)
"""An empty variable counts as not set."""
_NAMES: Final = {each.setting: each.name for each in VARIABLES}


def settings_of_environment(without: Collection[str] = ()) -> dict[str, Any]:
    """Returns the settings from variables, except those in `without`.

    Raises InvalidSettingError for a text that cannot be read.
    """
    given = {each: os.environ.get(each.name, "").strip() for each in VARIABLES if each.setting not in without}
    found = {each.setting: _read(each, text) for each, text in given.items() if text}
    if "credentials" not in without and (credentials := credentials_from(os.environ)) is not None:
        found["credentials"] = credentials
    return found


def unless_set(**defaults: Any) -> dict[str, Any]:
    """Returns those of a command's defaults that no variable overrides."""
    return {setting: value for setting, value in defaults.items() if not os.environ.get(_NAMES[setting], "").strip()}


def named_by_variable(error: InvalidSettingError, given: Collection[str]) -> InvalidSettingError:
    """Returns the error of a setting, which names its variable unless the setting is `given` in code."""
    secrets = {} if "credentials" in given else {field: name for name, field in CREDENTIALS.items()}
    variable = (_NAMES | secrets).get(error.field or "")
    if variable is None or error.field in given:
        return error
    return type(error)(f"{variable}: {error.message}", field=variable)


def _read(variable: Variable, text: str) -> Any:
    try:
        return variable.read(text)
    except (KeyError, ValueError):
        problem = f"{variable.name} is {text!r}"
        raise InvalidSettingError(problem, field=variable.name, remedy=f"give {variable.form}") from None
