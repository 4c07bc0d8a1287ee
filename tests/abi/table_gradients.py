"""Gradients of the operator table on the library under test: every case, rows around the vectors, and drawn calls."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.spec import OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from tests.bounds import assert_defined
from tests.call_file import PRODUCT, device_array, stand_ins, written_types
from tools.abi.acl import DeviceTensor, Library

from .phase_one import Tensor
from .table_calls import TABLED, abi_names, arguments_of

LENGTHS = (*range(1, 10), 15, 16, 17, 31, 32, 33, 65)
"""Lengths of rows: up to and around the vectors of each type, and twice the longest."""
FEW_LENGTHS = (1, 3, 7, 9, 17, 33, 65)
DRAWS, FEW_DRAWS = 20, 5
FILL = 7
"""In memory that a call must not write, and in integers that it has to."""
PRODUCTS = ("addmm-", "batch_mat_mul-", "convolution-", "convolution_backward-", "flash_attention_", "matmul-", "mm-")
"""How calls of operators are printed whose bits are those of a vector level."""
LARGE = "6 MB"
"""Several pieces of a parallel loop."""


def sweep(product: Product = PRODUCT, *, is_short: bool = False) -> Iterator[TypedCase]:
    """Yields calls of every operator and type whose gradients must not depend on processor, threads or addresses."""
    listed = [typed for spec in TABLED.values() for typed in _calls_of(spec, product, is_short)]
    for typed in (*typed_cases(product, *TABLED), *listed):
        # For an empty input, operators leave the output unchanged.
        if all(map(all, typed.case.shapes.values())) and not list(typed.spec.check(typed.arguments, product)):
            yield typed


def _calls_of(spec: OperatorSpec, product: Product, is_short: bool) -> Iterator[TypedCase]:
    samples, dtypes = samples_of(spec.name), spec.leading_input.dtypes.get(product, ())
    integers = np.random.default_rng(0).integers
    draws, lengths = (FEW_DRAWS, FEW_LENGTHS) if is_short else (DRAWS, LENGTHS)
    cases = [samples.draw(lambda least, most: int(integers(least, most, endpoint=True))) for _ in range(draws)]
    cases += [case for length in lengths for case in samples.rows(length)]
    for number, case in enumerate(case for case in cases if product in case.products):
        named = replace(case, name=f"{case.name}_{number}")
        yield from (TypedCase(spec, named, dtype) for dtype in case.only or dtypes if dtype in dtypes)
    if not is_short:
        yield from (TypedCase(spec, samples.timed[LARGE], dtype) for dtype in dtypes[:1])


def unwritten(type: TensorType) -> np.ndarray:
    """Returns what an output holds before a call: no tolerance of a floating-point gradient reaches its elements."""
    dtype = type.dtype.numpy
    return np.full(type.shape, FILL if dtype.kind in "iu" else 2.0**15, dtype)


def placed(array: np.ndarray, offset: int) -> np.ndarray:
    """Returns a copy that begins `offset` bytes behind an address that suits vectors."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    view = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


@contextmanager
def described(
    acl: Library, typed: TypedCase, memory: Mapping[str, np.ndarray], product: Product
) -> Iterator[list[object]]:
    """Yields the call's arguments, with tensors in this memory by CANN's names."""
    with ExitStack() as stack:
        given: list[object] = []
        for name, value in arguments_of(typed, product).items():
            if isinstance(value, Tensor):
                address = memory[name].ctypes.data
                tensor = acl.describe(value.shape, value.data_type, format_=value.format_, address=address)
                given.append(stack.enter_context(tensor))
            else:
                given.append(stack.enter_context(acl.value(value)))
        yield given


def result_of(outputs: Mapping[str, np.ndarray]) -> Any:
    """Returns the only gradient, or a tuple of several."""
    return tuple(outputs.values()) if len(outputs) > 1 else next(iter(outputs.values()))


def gradient(acl: Library, typed: TypedCase, offset: int = 0, product: Product = PRODUCT) -> Any:
    """Runs the call on host memory as it is, every operand and the workspace at that offset."""
    names = abi_names(typed.spec)
    memory = {names[name]: placed(unwritten(type), offset) for name, type in written_types(typed).items()}
    for name, array in typed.arrays().items():
        memory[names[name]] = placed(device_array(typed, name, array, product), offset)
    memory |= {names[name]: placed(array, offset) for name, array in stand_ins(typed).items()}
    with described(acl, typed, memory, product) as given:
        size, executor = acl.plan(typed.spec.symbol, *given)
        workspace = placed(np.zeros(size, np.uint8), offset)
        acl.call(typed.spec.symbol, workspace.ctypes.data if size else None, size, executor, None)
        acl.call("aclrtSynchronizeStream", None)
    return result_of({name: memory[names[name]] for name in typed.outputs})


def device_arrays(typed: TypedCase, given: Mapping[str, np.ndarray] = MappingProxyType({})) -> dict[str, np.ndarray]:
    """Returns the inputs as the device reads them and full outputs by CANN's names; some of both may be given."""
    names, outputs = abi_names(typed.spec), written_types(typed)
    inputs = {name: array for name, array in given.items() if name not in outputs}
    inputs = inputs if inputs.keys() == typed.case.shapes.keys() else typed.arrays() | inputs
    arrays = {names[name]: device_array(typed, name, array) for name, array in (inputs | stand_ins(typed)).items()}
    return arrays | {names[name]: given.get(name, unwritten(type)) for name, type in outputs.items()}


def run(acl: Library, typed: TypedCase, tensors: Mapping[str, DeviceTensor], **changed: object) -> None:
    """Runs the call on tensors by CANN's names; arguments may be changed."""
    with ExitStack() as stack:
        given: list[object] = []
        for name, value in (arguments_of(typed, PRODUCT) | changed).items():
            if name in tensors and value is not None:
                given.append(tensors[name].handle)
            else:
                given.append(stack.enter_context(acl.value(value)))
        acl.run(typed.spec.symbol, *given)


def gradient_of(acl: Library, typed: TypedCase, **given: np.ndarray) -> Any:
    """Runs the call in device memory, on these inputs and the sample's others."""
    return masked_gradients_of(acl, typed, {}, **given)


def masked_gradients_of(acl: Library, typed: TypedCase, changed: Mapping[str, object], **given: np.ndarray) -> Any:
    """The same with some arguments changed, by CANN's names."""
    arguments, names = arguments_of(typed, PRODUCT), abi_names(typed.spec)
    with ExitStack() as stack:
        tensors = {
            name: stack.enter_context(acl.tensor(array, format_=arguments[name].format_))
            for name, array in device_arrays(typed, given).items()
        }
        run(acl, typed, tensors, **changed)
        return result_of({each: tensors[names[each]].read_storage() for each in typed.outputs})


def assert_exact(acl: Library, typed: TypedCase, arrays: Mapping[str, Any], rtol: float = 1e-6) -> None:
    """Compares with the definition, also where that is not finite."""
    given = {name: np.asarray(each).astype(typed.arguments.inputs[name].dtype.numpy) for name, each in arrays.items()}
    with np.errstate(all="ignore"):
        truths = [
            each.astype(np.float32) for each in arrays_of(reference.define(typed.spec.name, given, typed.attributes))
        ]
    for found, truth in zip(arrays_of(gradient_of(acl, typed, **given)), truths, strict=True):
        np.testing.assert_allclose(found, truth, rtol, 1e-6, err_msg=str(typed))


def call(name: str, dtype: str = "float32", /, *, fixed: Mapping[str, str] | None = None, **given: tuple) -> TypedCase:
    """Returns a call of shapes and attributes by their names on the wire."""
    spec = OPERATORS[name]
    shapes = {each.name: given.pop(each.name) for each in spec.inputs if each.name in given}
    return TypedCase(
        spec, replace(samples_of(name).cases[0], name="call", shapes=shapes, attributes=given, fixed=fixed or {}), dtype
    )


def print_gradients(acl: Library, product: str, offset: int, is_short: bool, is_defined: bool, name: str = "") -> None:
    """Prints what gradients have in common if they are equal; checks them by their definition, if wanted.

    Runs in a process of its own, because a process has one product, one vector level and one number of threads.
    """
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for typed in sweep(Product(product), is_short=is_short):
        if name in typed.spec.name:
            result = gradient(acl, typed, offset, Product(product))
            if is_defined and not typed.case.name.startswith("timed"):
                assert_defined(typed, result, Product(product))
            print(typed, hashlib.sha256(b"".join(each.tobytes() for each in arrays_of(result))).hexdigest())
