"""Programs in JSON: the form for writing by hand and for bundles.

{"steps": [{"operator": ..., "inputs": {NAME: VALUE}, "attributes": {...}, "outputs": [...], "name": "g"}, ...],
 "returned": [{"step": "g", "output": "grad_input"}]}

A VALUE is the name of an array's file, a list of sizes (a shape without values), or an object: `{"file": ...}`, or
`{"step": "g", "output": ...}` of an earlier step, by name or number; both may have `"view": {"offset", "strides",
"shape"}` in elements. Without `returned` the outputs that no step uses come back.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from aclgrad.errors import RequestError
from aclgrad.judge.programs.program import Array, Given, Program, Returned, Step
from aclgrad.operators.attributes import plain_attribute
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, OperatorSpec
from aclgrad.operators.validation import check_on_any_product
from aclgrad.sources import SHAPE_ONLY, InMessage
from aclgrad.tensors import DTYPES, DType, TensorType, TensorView, View, type_of_array
from aclgrad.wire.limits import MAX_LIST_LENGTH, MAX_NAME, MAX_RANK, MAX_STEPS
from aclgrad.wire.messages import OperatorCall

Load = Callable[[str], Array]
_Kind = TypeVar("_Kind")

_PROGRAM: Final = ("steps", "returned")
_STEP: Final = ("operator", "inputs", "attributes", "outputs", "name")
_VIEW: Final = ("offset", "strides", "shape")
_LATER: Final = DTYPES["float32"]
"""Stands for a shape's dtype, which is that of an input with values."""


def program_of(fields: Mapping[str, Any], load: Load) -> tuple[Program, tuple[Returned, ...]]:
    """Returns a program and the outputs that it returns; `load` returns the array of a file's name.

    Raises ValueError, which names the step and the field, if the form is wrong or no product takes a step, and the
    errors of `load`.
    """
    _check_fields("the program", fields, _PROGRAM)
    steps = _field("the program", fields, "steps", list)
    if not 0 < len(steps) <= MAX_STEPS:
        raise ValueError(f"the program has {len(steps)} steps; give 1 to {MAX_STEPS}")
    reader = _Reader(load)
    for number, each in enumerate(steps):
        reader.add(f"step {number}", each)
    if "returned" not in fields:
        return reader.program, reader.unused()
    returned = [reader.returned(f"returned[{n}]", each) for n, each in enumerate(_sequence("returned", fields))]
    if not returned or len(set(returned)) < len(returned):
        raise ValueError("returned names no output, or one twice; leave it out for the outputs that no step uses")
    return reader.program, tuple(returned)


class _Reader:
    """Adds steps to a program; a file that several inputs name is loaded once, and is one array."""

    def __init__(self, load: Load) -> None:
        self.program = Program()
        self._load = load
        self._arrays: dict[str, Array] = {}
        self._numbers: dict[str, int] = {}

    def add(self, where: str, fields: Any) -> None:
        _check_fields(where, fields, _STEP)
        spec = _operator(where, _field(where, fields, "operator", str))
        where = f"{where} ({spec.name})"
        inputs = self._inputs(where, spec, _field(where, fields, "inputs", dict))
        attributes = _attributes(where, spec, _field(where, fields, "attributes", dict, {}))
        outputs = tuple(_name(f"{where} outputs", each) for each in _sequence("outputs", fields, where))
        types = _types(where, spec, OperatorCall(spec.name, tuple(map(self._tensor, inputs)), attributes, {}, outputs))
        name = _name(where, fields["name"]) if "name" in fields else ""
        if name in self._numbers:
            raise ValueError(f"{where} has the name {name!r} of step {self._numbers[name]}; give it another")
        if name:
            self._numbers[name] = len(self.program.steps)
        self.program.steps.append(Step(spec.name, inputs, attributes, outputs, types, name))

    def unused(self) -> tuple[Returned, ...]:
        """Returns the outputs that no step uses."""
        used = {(each.step, each.output) for step in self.program.steps for each in step.inputs}
        return tuple(each for each in self.program.outputs if each not in used)

    def returned(self, where: str, fields: Any) -> Returned:
        _check_fields(where, fields, ("step", "output"))
        return self._output(where, fields)

    def _inputs(self, where: str, spec: OperatorSpec, values: Mapping[str, Any]) -> list[Given]:
        names = {each.python_name: each.name for each in spec.inputs}
        given: list[Given] = []
        shapes: list[tuple[str, Given]] = []
        for written, value in values.items():
            # The client's `input` is CANN's `self`.
            name = names.get(written, written)
            at = f"{where} inputs[{_name(where, written)}]"
            if name in (each.name for each in given):
                raise ValueError(f"{at} is given twice")
            given.append(self._given(at, name, value))
            if given[-1].array is None and given[-1].step is None:
                shapes.append((at, given[-1]))
        dtype = next((each.type.dtype for each in given if each.array is not None or each.step is not None), None)
        for at, each in shapes:
            if dtype is None:
                raise ValueError(f"{at} is a shape, and no other input has a dtype; give at least one with values")
            each.type = TensorType(dtype, each.type.shape)
        return given

    def _given(self, where: str, name: str, value: Any) -> Given:
        if isinstance(value, list):
            return Given(name, TensorType(_LATER, _sizes(where, value)))
        if isinstance(value, str):
            value = {"file": value}
        if not isinstance(value, dict) or ("file" in value) == ("step" in value):
            raise ValueError(f'{where} has to be a file, a list of sizes, or {{"step": ..., "output": ...}}')
        if "file" in value:
            _check_fields(where, value, ("file", "view"))
            array = self._array(where, _field(where, value, "file", str))
            given = Given(name, type_of_array(name, array), array=array)
        else:
            _check_fields(where, value, ("step", "output", "view"))
            step, output = self._output(where, value)
            given = Given(name, self.program.steps[step].types[output], step=step, output=output)
        if "view" in value:
            _set_view(f"{where} view", given, value["view"])
        return given

    def _array(self, where: str, file: str) -> Array:
        if file not in self._arrays:
            try:
                self._arrays[file] = self._load(file)
            except (OSError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from error
        return self._arrays[file]

    def _output(self, where: str, fields: Mapping[str, Any]) -> Returned:
        step, count = fields.get("step"), len(self.program.steps)
        number = self._numbers.get(step) if isinstance(step, str) else step
        if type(number) is not int or not 0 <= number < count:
            raise ValueError(f"{where} has step {_cut(step)}; give the name or the number of an earlier step")
        types = self.program.steps[number].types
        output = _field(where, fields, "output", str, next(iter(types)) if len(types) == 1 else None)
        if output not in types:
            raise ValueError(f"{where} has output {_cut(output)}, and step {number} has {', '.join(types)}")
        return number, output

    def _tensor(self, given: Given) -> TensorView:
        """Returns the input without its values, for a check of the call."""
        if given.array is None and given.step is None:
            return TensorView(given.name, given.type, SHAPE_ONLY)
        whole = self.program.whole_type(given)
        return TensorView(given.name, given.type, InMessage(whole.size_bytes), given.view)


def _types(where: str, spec: OperatorSpec, call: OperatorCall) -> dict[str, TensorType]:
    try:
        check_on_any_product(call, spec)
    except RequestError as error:
        raise ValueError(f"{where}: {error.message}") from error
    arguments = Arguments({each.name: each.type for each in call.inputs}, {**spec.defaults, **call.attributes})
    return {each.name: each.infer(arguments) for each in spec.returned if not call.outputs or each.name in call.outputs}


def _operator(where: str, name: str) -> OperatorSpec:
    if name not in OPERATORS:
        meant = " or ".join(get_close_matches(name, OPERATORS)) or "one that `aclgrad operators` lists"
        raise ValueError(f"{where} operator {_cut(name)} is not known to this client; give {meant}")
    return OPERATORS[name]


def _attributes(where: str, spec: OperatorSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    specs = {each.name: each for each in spec.attributes}
    found = {}
    for name, value in values.items():
        at = f"{where} attributes[{_name(where, name)}]"
        items = value if isinstance(value, list) else [value]
        if len(items) > MAX_LIST_LENGTH or any(
            isinstance(each, int) and not -(2**63) <= each < 2**63 for each in items
        ):
            problem = f"is no value of 64 bits, and no list of at most {MAX_LIST_LENGTH} of them"
            raise ValueError(f"{at} {problem}")
        try:
            found[name] = plain_attribute(name, value, specs.get(name))
        except RequestError as error:
            raise ValueError(f"{where}: {error.message}") from error
    return found


def _set_view(where: str, given: Given, fields: Any) -> None:
    """Makes the input a view of a part of the elements."""
    _check_fields(where, fields, _VIEW)
    whole, shape = given.type, _sizes(f"{where} shape", fields.get("shape"))
    strides = _sizes(f"{where} strides", fields["strides"]) if "strides" in fields else ()
    given.view = View(_field(where, fields, "offset", int, 0), strides)
    if not given.view.fits(shape) or given.view.end(shape) > whole.element_count:
        raise ValueError(f"{where} of shape {shape} is not within the {whole.element_count} elements of {whole}")
    given.type = TensorType(whole.dtype, shape)


def _sizes(where: str, values: Any) -> tuple[int, ...]:
    is_list = isinstance(values, list) and len(values) <= MAX_RANK
    if not is_list or any(type(each) is not int or not 0 <= each < 2**63 for each in values):
        raise ValueError(f"{where} has to be a list of at most {MAX_RANK} integers that are at least 0")
    return tuple(values)


def _check_fields(where: str, fields: Any, known: Sequence[str]) -> None:
    if not isinstance(fields, dict):
        raise ValueError(f"{where} has to be an object with {', '.join(known)}")
    if unknown := [each for each in fields if each not in known]:
        raise ValueError(f"{where} has the field {_cut(unknown[0])}; it takes {', '.join(known)}")


def _field(where: str, fields: Mapping[str, Any], name: str, kind: type[_Kind], default: _Kind | None = None) -> _Kind:
    value = fields.get(name, default)
    if type(value) is not kind:
        raise ValueError(f"{where} has {'no' if name not in fields else 'a wrong'} {name}; give {_KINDS[kind]}")
    return value


_KINDS: Final[Mapping[type, str]] = {str: "a text", int: "an integer", list: "a list", dict: "an object"}


def _sequence(name: str, fields: Mapping[str, Any], where: str = "the program") -> list[Any]:
    return _field(where, fields, name, list, [])


def _cut(value: object) -> str:
    """Returns the part of a value that an error repeats."""
    return repr(value)[:MAX_NAME]


def _name(where: str, name: Any) -> str:
    """Returns a name that errors can repeat on a terminal."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{where} has the name {_cut(name)}, and names are letters, digits and underscores")
    return name


def fields_of(program: Program, returned: Sequence[Returned], file: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Returns a program in JSON, and its arrays by their names in the file."""
    arrays: dict[str, Array] = {}
    names: dict[int, str] = {}

    def value(number: int, given: Given) -> Any:
        array = given.array if given.entry is None else program.table[given.entry]
        if array is not None:
            name = names.setdefault(id(array), program.label((number, given.name)))
            arrays[name] = array
            value: dict[str, Any] = {"file": f"{file}:{name}"}
        elif given.step is not None:
            value = {"step": given.step, "output": given.output}
        else:
            return given.type.shape
        if given.view is None:
            return value.get("file", value)
        shape = given.type.shape
        return {**value, "view": {"offset": given.view.offset, "strides": given.view.strides_of(shape), "shape": shape}}

    steps = [
        {
            "operator": step.operator,
            "inputs": {each.name: value(number, each) for each in step.inputs},
            "attributes": {name: _plain(name, each) for name, each in step.attributes.items()},
            "outputs": step.outputs,
            **({"name": step.name} if step.name else {}),
        }
        for number, step in enumerate(program.steps)
    ]
    return {"steps": steps, "returned": [{"step": step, "output": output} for step, output in returned]}, arrays


def _plain(name: str, value: Any) -> Any:
    plain = plain_attribute(name, value, None)
    return plain.name if isinstance(plain, DType) else plain
