"""One step as a program that `pathbench run` supervises; prints what the step found."""
import ctypes
import errno
import fcntl
import os
import resource
import socket
import struct
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF, IO_URING_SETUP, PR_SET_NO_NEW_PRIVS = 444, 446, 425, 38


def call(number, *arguments):
    """A system call; returns its result, or the negative error number."""
    result = LIBC.syscall(ctypes.c_long(number), *arguments)
    return result if result >= 0 else -ctypes.get_errno()


def pair():
    """A connected pair of sockets over loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]


def protocol(one):
    return {6: "tcp", 262: "mptcp"}[one.getsockopt(socket.SOL_SOCKET, 38)]


def ends():
    """The peer sees the end of the connection although the program goes on."""
    client, server = pair()
    server.settimeout(20)
    client.close()
    print("end" if server.recv(1) == b"" else "data")


def flags():
    for kind in (0, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC):
        descriptor = LIBC.socket(socket.AF_INET, socket.SOCK_STREAM | kind, 0)
        nonblocking = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_NONBLOCK)
        close_on_exec = bool(fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC)
        print(kind == nonblocking * socket.SOCK_NONBLOCK | close_on_exec * socket.SOCK_CLOEXEC)


def descriptors():
    """The program's own limit of descriptors applies."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    kept = []
    try:
        while True:
            kept.append(socket.socket())
    except OSError as error:
        print(errno.errorcode[error.errno])


def options():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IP, 11, 1)
    try:
        socket.socket().setsockopt(socket.IPPROTO_TCP, 18, 1000)
    except OSError as error:
        print(errno.errorcode[error.errno])


def landlock():
    """Denies itself TCP (Landlock ABI 4), in the parent of the process that connects."""
    before, server = pair()
    print(protocol(before))
    address = server.getsockname()
    ruleset = call(LANDLOCK_CREATE_RULESET, struct.pack("QQ", 0, 2), ctypes.c_size_t(16), 0)
    assert ruleset >= 0, os.strerror(-ruleset)
    assert LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert call(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    sys.stdout.flush()
    if os.fork():
        os.wait()
        return
    denied = socket.socket()
    print(protocol(denied))
    print(errno.errorcode[denied.connect_ex(address)])


def io_uring():
    print(errno.errorcode.get(-call(IO_URING_SETUP, 8, ctypes.create_string_buffer(120)), "made"))


def other_namespace():
    print(protocol(socket.socket()))


def short_connections(count=10_000):
    """Connections over loopback, some at a time."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def serve():
        while True:
            try:
                one = listener.accept()[0]
            except OSError:
                return
            one.sendall(one.recv(100))
            one.close()

    def connect(times):
        for _ in range(times):
            with socket.create_connection(listener.getsockname()) as one:
                one.sendall(b"x" * 100)
                while one.recv(100):
                    pass

    for _ in range(2):
        threading.Thread(target=serve, daemon=True).start()
    clients = [threading.Thread(target=connect, args=(count // 4,)) for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    print("done", flush=True)
    os._exit(0)


def listen(port):
    listener = socket.create_server(("0.0.0.0", int(port)))
    while True:
        listener.accept()


def fetch(address, path):
    """As fetch.go."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as one:
        one.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        count = 0
        while data := one.recv(65536):
            count += len(data)
    print(count)


def forbid_seccomp(*command):
    """Runs a command to which a filter forbids the system call seccomp(2)."""
    numbers = {"x86_64": 317, "aarch64": 277}
    statement = lambda code, jt, jf, k: struct.pack("HBBI", code, jt, jf, k)
    program = statement(0x20, 0, 0, 0) + statement(0x15, 0, 1, numbers[os.uname().machine])
    program += statement(0x06, 0, 0, 0x50000 | errno.EPERM) + statement(0x06, 0, 0, 0x7FFF0000)
    kept = ctypes.create_string_buffer(program)
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    assert LIBC.prctl(22, 2, struct.pack("HxxxxxxP", 4, ctypes.addressof(kept)), 0, 0) == 0
    os.execvp(command[0], command)


def tree():
    """Threads, and processes by fork and exec; all of them make sockets, and stay."""
    for _ in range(4):
        threading.Thread(target=lambda: [socket.socket() for _ in range(50)]).start()
    for _ in range(3):
        if os.fork() == 0:
            socket.socket()
            os.execvp("sleep", ["sleep", "300"])
    print("ready", flush=True)
    threading.Event().wait()


globals()[sys.argv[1]](*sys.argv[2:])
