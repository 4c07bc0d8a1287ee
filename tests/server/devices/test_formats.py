"""The format and the index type of each tensor that a card gets, against what cards and CANN's checks want.

Formats follow the rank, as torch_npu gives them (op-plugin, op_api_common.h): NCL, NCHW or NCDHW for tensors with a
batch, channels and spatial axes, otherwise ND. Some operators refuse other formats, or ignore them at their peril.
"""

import ctypes
import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.spec import OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.plan import Limits, plan_call
from tests.native.blocking import BlockingDevice
from tests.native.shims import build, host_library, open_with
from tests.server.sent import NO_LIMIT, contents_of
from tools.abi.acl import DataType, Format

# Keeps rank, data type and format of each tensor.
RECORDING = """
#include <mutex>
#include <vector>
std::mutex mutex;
std::vector<int64_t> kept;
extern "C" {
void* aclCreateTensor(const int64_t* dims, uint64_t rank, int type, const int64_t* strides, int64_t offset, int format,
                      const int64_t* storage, uint64_t storage_rank, void* data) {
  static const auto real = Real<void*(const int64_t*, uint64_t, int, const int64_t*, int64_t, int, const int64_t*,
                                      uint64_t, void*)>("aclCreateTensor");
  {
    const std::lock_guard<std::mutex> lock(mutex);
    kept.insert(kept.end(), {static_cast<int64_t>(rank), type, format});
  }
  return real(dims, rank, type, strides, offset, format, storage, storage_rank, data);
}
// The kept numbers, which are forgotten.
uint64_t TakeTensors(int64_t* numbers) {
  const std::lock_guard<std::mutex> lock(mutex);
  const uint64_t count = kept.size();
  for (uint64_t i = 0; i < count; ++i) numbers[i] = kept[i];
  kept.clear();
  return count;
}
}
"""

NCL, NCHW, NCDHW, ND = Format.NCL, Format.NCHW, Format.NCDHW, Format.ND
BY_RANK = {3: NCL, 4: NCHW, 5: NCDHW}
"""Of tensors with a batch, channels and spatial axes."""

# What CANN's checks and tests say, those of its repositories ops-nn, ops-math and ops-cv, and Torch-FL's of an A3.
REFUSES_ND = {
    # CANN's check takes ND as well; the forward operator of an A3 refused it with 161002 (Torch-FL).
    "adaptive_avg_pool2d_backward",
    # CANN's check refuses ND, as an A3 did with 161002 (Torch-FL).
    "avg_pool2d_backward",
    # CANN's tests use no ND; on an A3, ND of rank 4 was 561103 (Torch-FL). Statistics and weight have rank 1.
    "batch_norm_backward",
    # With ND, the last axis would count as channels where CANN chooses between AI Core and AI CPU.
    "grid_sampler3d_backward",
    # CANN's check only compares formats; an A3 wanted NCHW (Torch-FL).
    "max_pool2d_with_indices_backward",
    # CANN's check refuses all others, also ND for the gradients; the boxes have rank 2.
    "roi_align_v2_backward",
    # CANN's check refuses ND.
    "upsample_nearest2d_backward",
}

INT32, INT64 = DataType.INT32, DataType.INT64
# What a device reads or writes as `indices` where that is not what the wire has.
INDEX_TYPES: dict[str, Callable[[Product], set[DataType]]] = {
    # On Atlas A2 and A3 CANN's documents have INT32 alone; on an A3, INT64 was 161002 (Torch-FL).
    "max_pool2d_with_indices_backward": lambda product: {INT32, INT64} if product is Product.ASCEND_950 else {INT32},
    "max_pool2d_with_indices": lambda _: {INT32},
    # The mask.
    "max_pool2d_with_mask": lambda _: {DataType.INT8},
    "max_pool2d_with_mask_backward": lambda _: {DataType.INT8},
}


class Recorder:
    """A device that records the tensors that its library is asked for."""

    def __init__(self, folder: Path, product: Product) -> None:
        config, shim = folder / "acl.json", build(folder, RECORDING)
        config.write_text(json.dumps({"host": {"product": str(product)}}))
        self.product = product
        self._take = ctypes.CDLL(str(shim)).TakeTensors
        self._numbers = (ctypes.c_int64 * 64)()
        self._device = BlockingDevice(open_with(str(shim), host_library(), str(config)))

    def tensors(self, typed: TypedCase) -> dict[str, tuple[int, DataType, Format]]:
        """Runs a call; returns rank, data type and format of its tensors by name. A call of nothing reaches no card."""
        self._take(self._numbers)
        views = tuple(view_of_array(name, array) for name, array in typed.arrays().items())
        call = OperatorCall(typed.spec.name, views, typed.case.attributes)
        plan = plan_call(call, self.product, Limits(NO_LIMIT))
        self._device.execute(plan.native, contents_of(call, plan))
        count = self._take(self._numbers)
        if plan.is_empty:
            assert count == 0
            return {}
        given = {each.name for each in views}
        inputs = typed.spec.inputs
        names = [each.name for each in inputs if each.name in given or each.stands_in(typed.arguments)]
        names += [each.name for each in typed.spec.outputs]
        # Lanes are made by copies, each from one tensor to another, before the call.
        laned = sum(each.name in given and each.lanes_of(typed.arguments.inputs[each.name]) > 0 for each in inputs)
        numbers = iter(self._numbers[6 * laned : count])
        return {
            name: (rank, DataType(type), Format(format_))
            for name, (rank, type, format_) in zip(names, zip(numbers, numbers, numbers, strict=True), strict=True)
        }


@pytest.fixture(params=[product for product in Product if any(product in each.products for each in OPERATORS.values())])
def recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recorder]:
    yield Recorder(tmp_path, request.param)
    # The library takes its product when nothing of an earlier one is left.
    gc.collect()


def format_of(spec: OperatorSpec, rank: int) -> Format:
    return BY_RANK.get(rank, ND) if spec.is_spatial else ND


def index_types(spec: OperatorSpec, product: Product) -> set[DataType]:
    """Returns the types of `indices`; by default those of the wire."""
    if spec.name in INDEX_TYPES:
        return INDEX_TYPES[spec.name](product)
    (indices,) = (each for each in spec.inputs if each.name == "indices")
    return {DataType[dtype.upper()] for dtype in indices.dtypes[product]}


def test_operators_that_refuse_nd_are_spatial() -> None:
    assert [name for name in REFUSES_ND if not OPERATORS[name].is_spatial] == []


@pytest.mark.parametrize("name", [name for name, spec in OPERATORS.items() if spec.is_spatial])
def test_the_samples_have_every_format(name: str) -> None:
    spec, formats = OPERATORS[name], set()
    for case in samples_of(name).cases:
        dtypes = {dtype for product in spec.products for dtype in served_dtypes(spec, case, product)}
        for typed in [TypedCase(spec, case, dtype) for dtype in sorted(dtypes)[:1]]:
            formats |= {format_of(spec, each.rank) for each in typed.arguments.inputs.values()}
    assert formats == {format_of(spec, rank) for each in spec.inputs for rank in each.ranks}


def of_every_form(name: str, product: Product) -> Iterator[TypedCase]:
    """Yields a case for each combination of ranks, and one of nothing."""
    seen: set[tuple[object, ...]] = set()
    for case in samples_of(name).cases:
        for dtype in served_dtypes(OPERATORS[name], case, product)[:1]:
            typed = TypedCase(OPERATORS[name], case, dtype)
            form = (*(len(shape) for shape in case.shapes.values()), all(map(all, case.shapes.values())))
            if form not in seen:
                seen.add(form)
                yield typed


def test_formats_and_index_types(recorder: Recorder) -> None:
    for name, spec in OPERATORS.items():
        # Lists are longer than the recorder, and the copy that an output begins as has tensors of its own.
        is_recorded = not any(each.is_list for each in spec.inputs) and not any(each.begins_as for each in spec.outputs)
        for typed in of_every_form(name, recorder.product) if is_recorded and recorder.product in spec.products else ():
            for tensor, (rank, type, format_) in recorder.tensors(typed).items():
                assert format_ is format_of(spec, rank), (typed, tensor, rank)
                assert tensor != "indices" or type in index_types(spec, recorder.product), typed
