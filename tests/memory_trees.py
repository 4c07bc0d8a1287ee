"""Files of control groups as processes see them, which limit their memory or do not."""

import os
from typing import Final

MACHINE_BYTES: Final = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
LIMIT_BYTES: Final = 192 * 2**20
_LIMIT: Final = f"{LIMIT_BYTES}\n"
_MORE: Final = f"{2 * LIMIT_BYTES}\n"
_UNLIMITED_1: Final = "9223372036854771712\n"
_GROUP: Final = "proc/self/cgroup"
_ROOT: Final = "sys/fs/cgroup"
_SERVICE: Final = "system.slice/aclgrad.service"
_INSTANCES: Final = r"system.slice/system-aclgrad\x2dserver.slice"
"""The slice of a template's instances."""

UNLIMITED: Final[dict[str, dict[str, str]]] = {
    "no_group": {_GROUP: ""},
    "not_a_group": {_GROUP: "not a group\n"},
    "version_2": {_GROUP: "0::/\n", f"{_ROOT}/memory.max": "max\n"},
    "version_1": {_GROUP: "4:memory:/\n", f"{_ROOT}/memory/memory.limit_in_bytes": _UNLIMITED_1},
    "of_another": {_GROUP: "0::/mine\n", f"{_ROOT}/other/memory.max": _LIMIT},
    "another_controller": {_GROUP: "4:cpu:/\n", f"{_ROOT}/memory/memory.limit_in_bytes": _LIMIT},
    "empty": {_GROUP: "0::/\n", f"{_ROOT}/memory.max": "\n"},
}
LIMITED: Final[dict[str, dict[str, str]]] = {
    "container_2": {_GROUP: "0::/\n", f"{_ROOT}/memory.max": _LIMIT},
    "container_1": {_GROUP: "4:memory:/\n", f"{_ROOT}/memory/memory.limit_in_bytes": _LIMIT},
    # The mount is the container's own group, under the path that the host knows.
    "path_of_the_host": {_GROUP: "4:memory:/docker/f00\n", f"{_ROOT}/memory/memory.limit_in_bytes": _LIMIT},
    # MemoryMax= of a service, and of the slice that it is in.
    "service": {_GROUP: f"0::/{_SERVICE}\n", f"{_ROOT}/{_SERVICE}/memory.max": _LIMIT},
    "slice": {
        _GROUP: f"0::/{_SERVICE}\n",
        f"{_ROOT}/{_SERVICE}/memory.max": "max\n",
        f"{_ROOT}/system.slice/memory.max": _LIMIT,
    },
    "slice_has_less": {
        _GROUP: f"0::/{_SERVICE}\n",
        f"{_ROOT}/{_SERVICE}/memory.max": _MORE,
        f"{_ROOT}/system.slice/memory.max": _LIMIT,
    },
    "service_has_less": {
        _GROUP: f"0::/{_SERVICE}\n",
        f"{_ROOT}/{_SERVICE}/memory.max": _LIMIT,
        f"{_ROOT}/system.slice/memory.max": _MORE,
    },
    "slice_of_instances": {
        _GROUP: f"0::/{_INSTANCES}/aclgrad-server@card0.service\n",
        f"{_ROOT}/{_INSTANCES}/aclgrad-server@card0.service/memory.max": "max\n",
        f"{_ROOT}/{_INSTANCES}/memory.max": _LIMIT,
        f"{_ROOT}/system.slice/memory.max": _MORE,
    },
    "service_1": {
        _GROUP: f"9:name=systemd:/{_SERVICE}\n4:cpu,memory:/{_SERVICE}\n0::/\n",
        f"{_ROOT}/memory/memory.limit_in_bytes": _UNLIMITED_1,
        f"{_ROOT}/memory/{_SERVICE}/memory.limit_in_bytes": _LIMIT,
    },
    "colon_in_the_name": {_GROUP: "0::/a:b\n", f"{_ROOT}/a:b/memory.max": _LIMIT},
}
"""The smallest limit is LIMIT_BYTES in each."""
