"""Tensors that come to a device and go from it piece by piece."""

import pytest

import aclgrad_native

from .blocking import BlockingDevice, deadline
from .pooling import plan

MEBIBYTE = 2**20


@pytest.mark.parametrize("sizes", [[65 * MEBIBYTE], [1, 65 * MEBIBYTE]])
def test_reservation_beyond_the_pool(device: BlockingDevice, sizes: list[int]) -> None:
    """Nothing of it stays, and the ticket of the release comes back all the same."""
    with pytest.raises(aclgrad_native.OutOfMemoryError):
        device.stage(*sizes)
    assert len(device.released) == 1
    device.assert_idle()


def test_a_closed_tensor_takes_no_work_and_keeps_nothing(device: BlockingDevice) -> None:
    source, target = device.stage(4, 16)
    call = plan((1, 1, 1), (1, 2, 2))
    ticket = device.waiting.new_ticket()
    device.native.write(ticket, [(source.native, 0, b"grad")], deadline(60))
    source.native.close()
    source.native.close()
    assert device.waiting.result(ticket) is None
    for use in (
        lambda: source.write(0, b"grad"),
        lambda: source.read(0, 4),
        lambda: source.read_file(0, 0),
        lambda: source.write_file(1, 0),
        lambda: device.execute_into(call, [source, None], target),
        lambda: device.execute_into(call, [b"grad", None], source),
    ):
        with pytest.raises(ValueError, match="tensor is closed"):
            use()
    # The copy is over, so the release does not leave it to the device.
    target.native.close()
    device.assert_idle()


def test_a_tensor_of_another_device_is_refused(library: aclgrad_native.AclLibrary, device: BlockingDevice) -> None:
    """Its address means nothing there; nor may a call copy to and from a closed one."""
    own, target, closed = device.stage(4, 16, 4)
    closed.native.close()
    (other,) = BlockingDevice(library).stage(16)
    call, submit = plan((1, 1, 1), (1, 2, 2)), device.native.submit_into
    for number, output, name in ((other, target, "input 0"), (own, other, "output 0")):
        with pytest.raises(ValueError, match=f"{name} was staged on device 0 and the call runs on device 0; stage it"):
            device.execute_into(call, [number, None], output)
    work = call, [own.native, None], [target.native], deadline(60), None, None
    for tensor, problem in ((closed, "the tensor is closed"), (other, "was staged on device 0")):
        with pytest.raises(ValueError, match=f"write 0.*{problem}"):
            device.waiting.call(submit, *work, [(tensor.native, 0, b"grad")])
        with pytest.raises(ValueError, match=f"read 0.*{problem}"):
            device.waiting.call(submit, *work, [], [(tensor.native, 0, b"", 4)])


def test_join(device: BlockingDevice) -> None:
    pieces = [b"a", b"", memoryview(b"xbcx")[1:3], bytes(5 * MEBIBYTE), bytearray(b"end")]
    assert device.join(pieces) == b"abc" + bytes(5 * MEBIBYTE) + b"end"
    assert device.join([]) == b""
    with pytest.raises(TypeError):
        device.join(["text"])  # type: ignore[list-item]
