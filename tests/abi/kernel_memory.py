"""What a call takes of memory beside its tensors, in a process of its own."""

import ctypes
import gc
from pathlib import Path

import numpy as np

from aclgrad.masks import MaskLayout
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.values import ArgmaxRule
from aclgrad.products import Product
from tests.call_file import device_array, stand_ins, written_types
from tests.long_shapes import MAX_BESIDE_BYTES, MAX_OF_TENSORS, long_arrays, long_calls
from tools.abi.acl import Library

from .table_calls import TABLED, abi_names
from .table_gradients import described

MEBIBYTE = 2**20
MOST_CELLS = 4096


def print_excesses(acl: Library, product: str, cells: int, is_short: bool) -> None:
    """Prints a line for each call that takes more than it may, and the number of calls.

    A short run has one dtype, whose sums are of another type, and no grid samplers, whose time grows with the threads.
    """
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    count = 0
    gc.freeze()  # what is there by now need not be looked through again and again
    for typed in long_calls(Product(product), cells):
        if typed.spec.name not in TABLED:
            continue
        if is_short and (typed.dtype != "float16" or "grid_sampler" in typed.spec.name):
            continue
        tensors, beside = _measure(acl, typed, Product(product))
        if tensors + beside > MAX_OF_TENSORS * tensors + MAX_BESIDE_BYTES:
            print(f"{typed}: {beside / MEBIBYTE:.1f} MiB beside {tensors / MEBIBYTE:.1f} MiB of tensors")
        count += 1
    print(count)


def _measure(acl: Library, typed: TypedCase, product: Product) -> tuple[int, int]:
    """Runs the call; returns the bytes that it reads and writes, and the most that the process took beside them."""
    names = abi_names(typed.spec)
    outputs = {names[name]: np.full(type.shape, 7, type.dtype.numpy) for name, type in written_types(typed).items()}
    out = next(iter(outputs.values()))
    unread = {each.name for each in typed.spec.inputs if each.unread_on is not None}
    arrays = {name: array for name, array in long_arrays(typed, product).items() if name not in unread}
    memory = {names[name]: _on_device(typed, name, arrays.pop(name), product) for name in list(arrays)}
    memory |= outputs | {names[name]: array for name, array in stand_ins(typed).items()}
    tensor_bytes = sum(array.nbytes for array in memory.values())
    memory |= {names[name]: out for name in unread}
    with described(acl, typed, memory, product) as given:
        _give_back()
        before = forget_peak()
        size, executor = acl.plan(typed.spec.symbol, *given)
        workspace = np.zeros(size, np.uint8)  # counted as what the call takes
        acl.call(typed.spec.symbol, workspace.ctypes.data if size else None, size, executor, None)
        acl.call("aclrtSynchronizeStream", None)
        return tensor_bytes, peak_bytes() - before


def _on_device(typed: TypedCase, name: str, array: np.ndarray, product: Product) -> np.ndarray:
    """Returns the input as the device reads it. Bits for large windows would take minutes, so these have none."""
    spec = next(each for each in typed.spec.inputs if each.name == name)
    rule = spec.values(typed.arguments, product)
    has_bits = isinstance(rule, ArgmaxRule) and rule.layout is MaskLayout.UINT16_BITS
    if has_bits and rule.pooling.window_cells > MOST_CELLS:
        return np.full(rule.mask.shape, 0, np.int8)
    return device_array(typed, name, array, product)


def _give_back() -> None:
    """Returns to the system what earlier calls have freed: a call must not grow into it unseen."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def forget_peak() -> int:
    """Returns the resident memory, which is the peak from now on."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
