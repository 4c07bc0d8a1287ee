"""Loads the library of a back end, or says why it cannot be."""

import aclgrad_native as native
from aclgrad_server.exits import StartError


def load_library(backend: str, config: str | None) -> native.AclLibrary:
    """Returns the library, started with the file of --acl-config; raises StartError with the remedy."""
    try:
        return native.open(backend, config)
    except native.LibraryError as error:
        remedy = "give --backend host, ascend (after CANN's set_env.sh), or the path of an ACL library"
        cause = f", which is 'ascend' because of {native.found_runtime()}" if backend == "auto" else ""
        raise StartError(f"backend {backend!r}{cause}: {error}; {remedy}") from error
    except native.AclError as error:
        raise failed(backend, error) from error


def failed(backend: str, error: native.AclError) -> StartError:
    """Returns the error of a library that loads and does not work."""
    return StartError(f"backend {backend!r}: {error}; check the devices with npu-smi and the file of --acl-config")


def runtime_file(backend: str) -> str:
    """Returns the runtime's file that the back end's name stands for, or a bare name for the loader to look up."""
    return native.library_files(backend)[0][0]
