"""Phase 1 from the operator table: every sample call, and the mutations whose answer the table knows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.spec import AttributeKind, InputSpec, OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, DType, TensorType
from tests.call_file import passed_values
from tools.abi.acl import NO_BOOLS, DataType, Format, Scalar
from tools.abi.prototypes import read_prototypes

from .cann_answers import CHECKED_FORMATS, answer_of, matches
from .phase_one import INVALID, NULL, Arguments, Row, Tensor

_PROTOTYPES = read_prototypes()

TABLED = {
    name: spec
    for name, spec in OPERATORS.items()
    if not any(each.is_list for each in spec.inputs) and not name.startswith("inplace_")
}
"""Those whose parameters are their inputs and outputs: lists, copies and fills are in test_movement.py."""

MASK = "outputMask"
"""The parameter that says which outputs are wanted, under the name that it has for every operator."""
_NULL = ""
"""In the place of a name that is no input or output of ours: devices get null."""


def abi_names(spec: OperatorSpec) -> dict[str, str]:
    """Returns CANN's names of inputs, attributes and outputs, by their wire names.

    An output that begins as an input has the input's. Attributes that are passed in another form have their own names.
    """
    tensors = [name for name, kind in _parameters(spec).items() if kind == "aclTensor"]
    values = _value_names(spec)
    if spec.passes is not None:
        values = [each.name.title().replace("_", "") for each in spec.attributes]
        values = [name[0].lower() + name[1:] for name in values]
    in_place = {each.name: each.begins_as for each in spec.outputs if each.begins_as}
    outputs = [each.name for each in spec.outputs if each.name not in in_place]
    for place in spec.null_outputs:
        outputs.insert(place, _NULL)
    inputs = [each.name for each in spec.inputs]
    for place in spec.null_inputs:
        inputs.insert(place, _NULL)
    outside = {name: own for name, own in zip([*inputs, *outputs], tensors, strict=True) if name != _NULL}
    outside |= {name: outside[input] for name, input in in_place.items()}
    return outside | dict(zip((each.name for each in spec.attributes), values, strict=True))


def _value_names(spec: OperatorSpec) -> list[str]:
    return [name for name, kind in _parameters(spec).items() if kind not in ("aclTensor", "aclBoolArray")]


def _parameters(spec: OperatorSpec) -> dict[str, str]:
    """Returns the types of phase 1's parameters by name."""
    prototype = _PROTOTYPES[f"{spec.symbol}GetWorkspaceSize"]
    return dict(list(zip(prototype.parameters, prototype.declared, strict=True))[:-2])


def rows_of(spec: OperatorSpec, product: Product) -> dict[str, Row]:
    """Returns every row of an operator on a product; if the product lacks it, the calls of one that has it."""
    served = product if product in spec.products else max(spec.products)
    cases = samples_of(spec.name).cases
    samples = [TypedCase(spec, case, dtype) for case in cases for dtype in served_dtypes(spec, case, served)]
    rows = {f"{typed.case.name} {typed.dtype}": Row(arguments_of(typed, served)) for typed in samples}
    for mutations in (_nulls, _masks, _dtypes, _ranks, _lengths, _alone):
        rows |= mutations(samples[0], served)
    for row, each in rows.items():
        code = answer_of(spec.name, row, each.code, served)
        rows[row] = each if code == each.code else Row(each.arguments, code)
    return rows


def arguments_of(typed: TypedCase, product: Product) -> Arguments:
    """Returns the device's arguments, in aclnn's order; all outputs are wanted."""
    spec, given = typed.spec, typed.arguments
    tensors = {each.name: each.infer(given) for each in spec.outputs}
    for each in spec.inputs:
        if each.name in given.inputs:
            rule, type = each.values(given, product), given.inputs[each.name]
            if lanes := each.lanes_of(type):
                type = TensorType(type.dtype, (*type.shape, lanes))
            tensors[each.name] = type if rule is None else rule.device_type(type)
        elif (constant := each.stands_in(given)) is not None:
            tensors[each.name] = constant.type
    names = abi_names(spec)
    listed: Arguments = {names[name]: _tensor(spec, type) for name, type in tensors.items()}
    for name, value in zip(_value_names(spec), passed_values(typed, product), strict=True):
        listed[name] = DataType(value.acl) if isinstance(value, DType) else value
    listed[MASK] = (True,) * len(spec.outputs)
    parameters = _parameters(spec)
    kinds = {names[each.name]: each.kind for each in spec.attributes}
    scalars = {name: _scalar(listed[name], kinds[name]) for name, kind in parameters.items() if kind == "aclScalar"}
    return {name: scalars.get(name, listed.get(name)) for name in parameters}


def _scalar(value: Any, kind: AttributeKind) -> Scalar | None:
    """Returns the scalar that the server makes: of a number's own kind, or a double."""
    if value is None:
        return None
    if kind is not AttributeKind.SCALAR:
        return Scalar(value)
    return Scalar(value, "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32")


def _tensor(spec: OperatorSpec, type: TensorType) -> Tensor:
    formats = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW} if spec.is_spatial else {}
    return Tensor(type.shape, DataType(type.dtype.acl), formats.get(type.rank, Format.ND))


def _nulls(typed: TypedCase, product: Product) -> dict[str, Row]:
    valid, names = arguments_of(typed, product), abi_names(typed.spec)
    # An empty list may be null.
    pointers = [
        name for name, value in valid.items() if isinstance(value, Tensor | Scalar | tuple | str) and value != ()
    ]
    rows = {f"{name} null": Row({**valid, name: None}, NULL, f"{name} must not be null") for name in pointers}
    for each in typed.spec.inputs:
        if each.is_optional:
            rows[f"{names[each.name]} null"] = Row({**valid, names[each.name]: None})
    return rows


def _masks(typed: TypedCase, product: Product) -> dict[str, Row]:
    """Every wrong length; and each output unwanted, there and null."""
    valid, outputs = arguments_of(typed, product), typed.spec.outputs
    if MASK not in valid:
        return {}
    rows = {
        f"{MASK} of {length}": Row({**valid, MASK: (True,) * length or NO_BOOLS}, INVALID, MASK)
        for length in range(len(outputs) + 2)
        if length != len(outputs)
    }
    for each in outputs:
        name = abi_names(typed.spec)[each.name]
        without = {**valid, MASK: tuple(other is not each for other in outputs)}
        rows[f"{name} not wanted"] = Row(without)
        answer = (0, "") if each.is_nullable else (NULL, f"{name} must not be null")
        rows[f"{name} not wanted and null"] = Row({**without, name: None}, *answer)
    rows[f"{MASK} all false"] = Row({**valid, MASK: (False,) * len(outputs)})
    return rows


def _dtypes(typed: TypedCase, product: Product) -> dict[str, Row]:
    """Yields all tensors of the operator's type together, and each tensor with its own types separately."""
    spec, valid = typed.spec, arguments_of(typed, product)
    names = abi_names(spec)
    common = valid[names[spec.leading_input.name]].data_type
    rows = {}
    for kind in DataType:
        if kind not in _types(spec.leading_input, product):
            changed = {name: value for name, value in valid.items() if _has_type(value, common)}
            rows[kind.name] = Row({**valid, **_retyped(changed, kind)}, INVALID)
    for each in spec.inputs:
        name = names[each.name]
        if valid[name] is not None and not _has_type(valid[name], common):
            for kind in set(DataType) - _read_types(typed, each, product):
                rows[f"{kind.name} {name}"] = Row({**valid, **_retyped({name: valid[name]}, kind)}, INVALID)
    return rows


def _types(input: InputSpec, product: Product) -> set[DataType]:
    return {DataType(DTYPES[name].acl) for name in input.dtypes[product]}


def _read_types(typed: TypedCase, input: InputSpec, product: Product) -> set[DataType]:
    """Returns as what a device reads the input, given each of the dtypes that the wire takes."""
    types = set()
    for name in input.dtypes[product]:
        type = TensorType(DTYPES[name], typed.case.shapes[input.name])
        given = replace(typed.arguments, inputs={**typed.arguments.inputs, input.name: type})
        rule = input.values(given, product)
        types.add(DataType((type if rule is None else rule.device_type(type)).dtype.acl))
    return types


def _has_type(value: object, kind: DataType) -> bool:
    return isinstance(value, Tensor) and value.data_type is kind


def _retyped(tensors: Arguments, kind: DataType) -> Arguments:
    return {name: Tensor(tensor.shape, kind, tensor.format_) for name, tensor in tensors.items()}


def _ranks(typed: TypedCase, product: Product) -> dict[str, Row]:
    """All tensors with too few and too many dims."""
    spec, valid = typed.spec, arguments_of(typed, product)
    tensors = {name: value for name, value in valid.items() if isinstance(value, Tensor)}
    rows = {}
    if len({each.ranks for each in spec.inputs}) == 1:
        ranks = spec.leading_input.ranks
        for rank in {max(min(ranks) - 1, 0), max(ranks) + 1} - set(ranks):
            changed = {name: _of_rank(tensor, rank) for name, tensor in tensors.items()}
            rows[f"rank {rank}"] = Row({**valid, **changed}, INVALID)
    return rows


def _of_rank(tensor: Tensor, rank: int) -> Tensor:
    shape = (1,) * (rank - len(tensor.shape)) + tensor.shape[max(len(tensor.shape) - rank, 0) :]
    return Tensor(shape, tensor.data_type, tensor.format_)


def _alone(typed: TypedCase, product: Product) -> dict[str, Row]:
    """Each tensor alone of another type, shape or format, and before its storage; and what is wrong about several."""
    valid, names = arguments_of(typed, product), abi_names(typed.spec)
    tensors = {name: value for name, value in valid.items() if isinstance(value, Tensor)}
    unread = {names[each.name] for each in typed.spec.inputs if each.unread_on is not None}
    rows: dict[str, Arguments] = {}
    format_code = INVALID if matches(typed.spec.name, CHECKED_FORMATS) else 0
    answers = {}
    for name, tensor in tensors.items():
        for kind in {DataType.FLOAT16, DataType.COMPLEX128} - {tensor.data_type}:
            rows[f"{name} of {kind.name}"] = {name: replace(tensor, data_type=kind)}
        for axis, size in enumerate(tensor.shape):
            longer = (*tensor.shape[:axis], size + 1, *tensor.shape[axis + 1 :])
            rows[f"{name} with dim {axis} one larger"] = {name: replace(tensor, shape=longer)}
        if tensor.shape:
            rows[f"{name} with a dim less"] = {name: replace(tensor, shape=tensor.shape[1:])}
        rows[f"{name} with a dim more"] = {name: replace(tensor, shape=(1, *tensor.shape))}
        if name not in unread:
            rows[f"{name} before its storage"] = {name: replace(tensor, offset=-1)}
        other = Format.NCHW if tensor.format_ is Format.ND else Format.ND
        rows[f"{name} in {other.name}"] = {name: replace(tensor, format_=other)}
        answers[f"{name} in {other.name}"] = format_code
    rows["FRACTAL_NZ"] = {name: replace(each, format_=Format.FRACTAL_NZ) for name, each in tensors.items()}
    answers["FRACTAL_NZ"] = format_code
    first, *_, last = tensors
    wrong = replace(tensors[first], data_type=DataType.COMPLEX128, shape=(1,))
    rows["null and wrong"] = {first: wrong, last: None}
    answers["null and wrong"] = NULL
    leading = next(each.shape[:1] for each in tensors.values() if each.shape)
    rows["a negative dim"] = {
        name: replace(each, shape=(-each.shape[0], *each.shape[1:]))
        for name, each in tensors.items()
        if each.shape[:1] == leading
    }
    return {row: Row({**valid, **changes}, answers.get(row, INVALID)) for row, changes in rows.items()}


def _lengths(typed: TypedCase, product: Product) -> dict[str, Row]:
    spec, valid, names = typed.spec, arguments_of(typed, product), abi_names(typed.spec)
    return {
        f"{names[name]} of {length}": Row({**valid, names[name]: value}, INVALID, names[name])
        for name, length, value in _wrong_lists(spec)
    }


def _wrong_lists(spec: OperatorSpec) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for each in spec.attributes:
        if each.kind is AttributeKind.INTS and each.lengths:
            for length in range(max(each.lengths) + 2):
                if length not in each.lengths:
                    yield each.name, length, (1,) * length
