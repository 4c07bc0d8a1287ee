// Handlers of signals as CANN's tracing installs them over those of the program.
#pragma once

namespace acl_host {

// On the first SIGINT, SIGTERM or SIGQUIT the process writes a line to stderr, restores the handler that was there
// before, and raises the signal again. The environment variable ASCEND_COREDUMP_SIGNAL=none turns it off, as in CANN.
void ChainSignalHandlers();

}  // namespace acl_host
