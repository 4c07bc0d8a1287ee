"""What each kind of fault does; `happen` returns when full service is back."""

from collections.abc import Callable, Mapping
from typing import Final

from tools.chaos.faults import devices, network, processes, surroundings
from tools.chaos.scene import Scene
from tools.chaos.schedule import Planned

Detected = Callable[[], None]
"""To be called when the product, or whoever starts it, has noticed the fault."""
Fault = Callable[[Scene, Planned, Detected], None]

FAULTS: Final[Mapping[str, Fault]] = {
    "kill": processes.kill,
    "stop": processes.stop,
    "pause": processes.pause,
    "renew": processes.renew,
    "supervisor_killed": processes.kill_supervisor,
    "host_killed": processes.kill_host,
    **{name: devices.fail for name in devices.PLANS},
    "certificate": surroundings.change_certificate,
    "identities": surroundings.change_identities,
    "full_log_disk": surroundings.fill_log_disk,
    "clock_jump": surroundings.move_clock,
    "partition": network.partition,
    "relay_silent": network.silence,
    "relay_throttled": network.throttle,
    "relay_half_open": network.forget,
}
