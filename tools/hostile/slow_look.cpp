// Preloaded into two servers that start at the same time: each checks whether another server answers on its unix
// socket, and then waits, so that the other one binds first.
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

extern "C" int connect(int descriptor, const sockaddr* address, socklen_t size) {
  constexpr useconds_t kDelayUs = 700'000;
  using Connect = int (*)(int, const sockaddr*, socklen_t);
  const int result = reinterpret_cast<Connect>(dlsym(RTLD_NEXT, "connect"))(descriptor, address, size);
  const int error = errno;
  if (result != 0 && address->sa_family == AF_UNIX) usleep(kDelayUs);
  errno = error;
  return result;
}
