"""Phase 1 from the operator table: every sample call, and the mutations whose answer the table knows."""

from collections.abc import Iterator
from dataclasses import replace

from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.samples import samples_of
from aclgrad.operators.spec import AttributeKind, InputSpec, OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from tools.abi.acl import DataType, Format
from tools.abi.prototypes import read_prototypes

from .phase_one import INVALID, NULL, Arguments, Row, Tensor

_PROTOTYPES = read_prototypes()

CANN_ANSWERS: dict[tuple[str, str], int | None] = {
    # These lengths are checked together with the null pointers.
    ("max_pool2d_with_mask_backward", "kernelSize of 0"): NULL,
    ("max_pool2d_with_mask_backward", "kernelSize of 3"): NULL,
    # A dtype of CANN's that the wire does not have.
    ("max_unpool2d_backward", "BOOL"): 0,
}
"""By operator and row: CANN's code if it differs from the table's, or None if CANN would crash."""


def abi_names(spec: OperatorSpec) -> dict[str, str]:
    """Returns CANN's names of inputs, attributes and output, by their wire names."""
    wire = [*(each.name for each in (*spec.inputs, *spec.attributes)), spec.output.name]
    *parameters, _, _ = _PROTOTYPES[f"{spec.symbol}GetWorkspaceSize"].parameters
    return dict(zip(wire, parameters, strict=True))


def rows_of(spec: OperatorSpec, product: Product) -> dict[str, Row]:
    """Returns every row of an operator on a product; if the product lacks it, the calls of one that has it."""
    served = product if product in spec.products else max(spec.products)
    cases = samples_of(spec.name).cases
    samples = [TypedCase(spec, case, dtype) for case in cases for dtype in served_dtypes(spec, case, served)]
    rows = {f"{typed.case.name} {typed.dtype}": Row(arguments_of(typed, served)) for typed in samples}
    for mutations in (_nulls, _dtypes, _ranks, _lengths):
        rows |= mutations(samples[0], served)
    for row in list(rows):
        code = CANN_ANSWERS.get((spec.name, row), rows[row].code)
        if code is None:
            del rows[row]
        else:
            rows[row] = rows[row]._replace(code=code)
    return rows


def arguments_of(typed: TypedCase, product: Product) -> Arguments:
    """Returns the device's arguments, in aclnn's order: inputs, attributes, the output."""
    given = typed.arguments
    tensors: Arguments = {}
    for each in typed.spec.inputs:
        rule, type = each.values(given, product), given.inputs[each.name]
        type = type if rule is None else rule.device_type(type)
        tensors[each.name] = _tensor(type.shape, type.dtype.acl)
    output = typed.spec.output.infer(given)
    values = {each.name: given.attributes[each.name] for each in typed.spec.attributes}
    listed = {**tensors, **values, typed.spec.output.name: _tensor(output.shape, output.dtype.acl)}
    return {abi_names(typed.spec)[name]: value for name, value in listed.items()}


def _tensor(shape: tuple[int, ...], data_type: int) -> Tensor:
    return Tensor(shape, DataType(data_type), Format.ND if len(shape) == 2 else Format.NCHW)


def _nulls(typed: TypedCase, product: Product) -> dict[str, Row]:
    valid = arguments_of(typed, product)
    pointers = [name for name, value in valid.items() if isinstance(value, Tensor | tuple)]
    return {f"{name} null": Row({**valid, name: None}, NULL, f"{name} must not be null") for name in pointers}


def _dtypes(typed: TypedCase, product: Product) -> dict[str, Row]:
    """Yields all tensors of the operator's type together, and each tensor with its own types separately."""
    spec, valid = typed.spec, arguments_of(typed, product)
    names = abi_names(spec)
    common = valid[names[spec.inputs[0].name]].data_type
    rows = {}
    for kind in DataType:
        if kind not in _types(spec.inputs[0], product):
            changed = {name: value for name, value in valid.items() if _has_type(value, common)}
            rows[kind.name] = Row({**valid, **_retyped(changed, kind)}, INVALID)
    for each in spec.inputs:
        name = names[each.name]
        if not _has_type(valid[name], common):
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
    """Every tensor alone, with a dimension more; and all with too few and too many."""
    spec, valid = typed.spec, arguments_of(typed, product)
    tensors = {name: value for name, value in valid.items() if isinstance(value, Tensor)}
    rows = {}
    for name, tensor in tensors.items():
        longer = Tensor((1, *tensor.shape), tensor.data_type, tensor.format_)
        rows[f"{name} with a dimension more"] = Row({**valid, name: longer}, INVALID)
    if len({each.ranks for each in spec.inputs}) == 1:
        for rank in (min(spec.inputs[0].ranks) - 1, max(spec.inputs[0].ranks) + 1):
            changed = {name: _of_rank(tensor, rank) for name, tensor in tensors.items()}
            rows[f"rank {rank}"] = Row({**valid, **changed}, INVALID)
    return rows


def _of_rank(tensor: Tensor, rank: int) -> Tensor:
    shape = (1,) * (rank - len(tensor.shape)) + tensor.shape[max(len(tensor.shape) - rank, 0) :]
    return Tensor(shape, tensor.data_type, tensor.format_)


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
