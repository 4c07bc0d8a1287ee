// Signal handlers that replace those of the program, as CANN's tracing does.
#pragma once

namespace acl_host {

// On the first SIGINT, SIGTERM or SIGQUIT the process writes a line to stderr, restores the previous handler, and
// raises the signal again. The environment variable ASCEND_COREDUMP_SIGNAL=none turns it off, as in CANN.
void ChainSignalHandlers();

}  // namespace acl_host
