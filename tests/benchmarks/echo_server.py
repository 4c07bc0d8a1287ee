"""A bare gRPC server: answers any request with a reply of the size that the request's last eight bytes tell."""

from concurrent.futures import ThreadPoolExecutor

import grpc

METHOD = "/echo/Echo"
LIMIT = 2**31 - 1


def reply_of(request: bytes, context: grpc.ServicerContext) -> bytes:
    size = int.from_bytes(request[-8:], "little")
    # Made once: a bare echo has nothing to compute and nothing to write.
    if size not in _replies:
        _replies[size] = bytes(size)
    return _replies[size]


_replies: dict[int, bytes] = {}


def main() -> None:
    options = [("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", LIMIT)]
    server = grpc.server(ThreadPoolExecutor(84), options=options)
    handler = grpc.unary_unary_rpc_method_handler(reply_of)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"ready: 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
