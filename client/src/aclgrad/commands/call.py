"""`aclgrad call`: one gradient, from files to a file."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from aclgrad._client.calls.arguments import Input
from aclgrad._client.calls.call import Call
from aclgrad._client.calls.requirements import MAX_MESSAGE_BYTES, Requirements
from aclgrad._client.sync.client import Client
from aclgrad.commands.common import chosen, connection
from aclgrad.commands.files import Array, is_file, load
from aclgrad.commands.outcome import ONLY, Outcome, check_output, check_room
from aclgrad.descriptions.operators import OperatorDescription
from aclgrad.errors import AclgradError, InvalidFieldError, RequestError
from aclgrad.exits import exit_codes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import AttributeKind, OperatorSpec
from aclgrad.operators.validation import check_on_any_product
from aclgrad.progress import waiting
from aclgrad.tensors import DTYPES
from aclgrad.wire.values import AttributeValue

_ASKED_S: Final = 1.0
"""Time limit of the question what a server takes, if this client does not know the call."""
_INPUT_FORM: Final = "a file (npy, npz, safetensors) or sizes such as 8,64,56,56"
_BOOLS: Final = {"true": True, "1": True, "false": False, "0": False}


def call(
    operator: str,
    arguments: Sequence[str],
    wanted: tuple[str, ...],
    output: Path | None,
    force: bool,
    timeout_s: float,
    as_json: bool,
    target: str,
) -> None:
    """Makes the call and writes the gradients to the output, if there is one."""
    with exit_codes("call"), Client.from_env(**connection(target), timeout_s=timeout_s) as client:
        check_output(output, overwrite=force)
        try:
            known = chosen(operator, OPERATORS, "known")
            inputs, attributes = _parse(known, arguments)
            requirements = Requirements(MAX_MESSAGE_BYTES, shape_only=True)
            made = Call(known.name, inputs, attributes, requirements, outputs=wanted or None)
            check_on_any_product(made.sent, known)
            outputs = [each.name for each in known.outputs]
        except RequestError as refusal:
            description = _described_there(operator, target, refusal)
            inputs, attributes = _parse(description, arguments)
            outputs = [each.name for each in description.outputs]
        check_room(output, wanted or outputs, ", or --want one of them")
        with waiting(f"waiting for {target}"):
            outcome = Outcome.of(
                lambda: _named(client.execute(operator, inputs, attributes, outputs=wanted or None)), operator=operator
            )
        outcome.save(output, overwrite=force)
        outcome.show(output, as_json=as_json)


def _named(result: Any) -> dict[str, Array]:
    """Returns the gradients by name."""
    if isinstance(result, np.ndarray):
        return {ONLY: result}
    return {name: each for name, each in result._asdict().items() if each is not None}


def _described_there(operator: str, target: str, refusal: RequestError) -> OperatorDescription:
    """Returns the server's description of the operator, which may be newer. Raises the refusal if none answers."""
    settings = connection(target) | {"connect_timeout_s": 0.0, "timeout_s": _ASKED_S}
    try:
        with Client.from_env(**settings) as client:
            served = {each.name: each for each in client.list_operators()}
    except AclgradError:
        raise refusal from None
    return chosen(operator, served, "served there")


def _parse(
    description: OperatorSpec | OperatorDescription, arguments: Sequence[str]
) -> tuple[dict[str, Input], dict[str, AttributeValue]]:
    kinds = {each.name: each.kind for each in description.attributes}
    names = [*(each.name for each in description.inputs), *kinds]
    inputs: dict[str, Input] = {}
    attributes: dict[str, AttributeValue] = {}
    given: dict[str, str] = {}
    for argument in arguments:
        written, equals, value = argument.partition("=")
        if not (written and equals and value):
            raise ValueError(f"{argument!r} is not NAME=VALUE")
        # CANN's name for `input`.
        name = "self" if written == "input" and written not in names else written
        if name in given:
            also = "" if given[name] == written else f", as {given[name]} too"
            raise ValueError(f"{written} is given twice{also}")
        given[name] = written
        if name not in names:
            raise InvalidFieldError.at(written, "is not known", f"{description.name} takes {', '.join(names)}")
        if name in kinds:
            attributes[name] = _read(written, value, *_form(written, kinds[name]))
        elif is_file(value):
            inputs[name] = _loaded(written, value)
        else:
            inputs[name] = _read(written, value, _integers, _INPUT_FORM)
    return inputs, attributes


def _form(name: str, kind: AttributeKind | None) -> tuple[Callable[[str], Any], str]:
    if kind is None:
        raise ValueError(f"{name} is of a kind that this client does not know; upgrade aclgrad")
    return _FORMS[kind]


def _read(name: str, value: str, read: Callable[[str], Any], form: str) -> Any:
    try:
        return read(value)
    except (ValueError, KeyError):
        raise ValueError(f"{name}={value}: give {form}") from None


def _loaded(name: str, value: str) -> Array:
    try:
        return load(value)
    except OSError as error:
        raise ValueError(f"{name}={value}: {error.strerror or error}; give {_INPUT_FORM}") from error


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _scalar(text: str) -> float:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)


_FORMS: Final[Mapping[AttributeKind, tuple[Callable[[str], Any], str]]] = {
    AttributeKind.BOOL: (lambda text: _BOOLS[text.lower()], "true or false"),
    AttributeKind.INT: (int, "an integer"),
    AttributeKind.DOUBLE: (float, "a number"),
    AttributeKind.SCALAR: (_scalar, "a number, an integer, true or false"),
    AttributeKind.INTS: (_integers, "integers separated by commas"),
    AttributeKind.TEXT: (str, "a text"),
    AttributeKind.BOOLS: (
        lambda text: tuple(_BOOLS[part.lower()] for part in text.split(",") if part),
        "bools: true,false",
    ),
    AttributeKind.DATA_TYPE: (lambda text: DTYPES[text], f"one of {', '.join(DTYPES)}"),
}
