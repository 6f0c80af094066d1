"""Where the inspector's server listens, and how it begins and ends."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import HANDLED_SIGNALS

from mfec.errors import MfecError
from mfec.inspector.answers import as_json

LONGEST_HEAD = 32_768  # bytes of a request's first line and headers


def listen(host: str, port: int) -> socket.socket:
    """A socket there; port 0 stands for one that is free."""
    if not 0 <= port <= 65535:
        raise ValueError(f"a port lies between 0 and 65535 (0: any that is free), not {port}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise MfecError(f"there is no address {host!r} on this machine; 127.0.0.1 is there always") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen()
    except OSError as error:
        listening.close()
        reasons = {
            errno.EADDRINUSE: f"port {port} is taken, perhaps by another `mfec inspect`; "
            "--port names another one, and --port 0 takes any that is free",
            errno.EADDRNOTAVAIL: f"{host} is no address of this machine; 127.0.0.1 is one always",
            errno.EACCES: f"port {port} is for the administrator of this machine; take one above 1023",
        }
        raise MfecError(reasons.get(error.errno or 0, f"cannot listen on port {port} of {host}: {error}")) from None
    return listening


def make_server(app: ASGIApp, *, begun: Callable[[], None] = lambda: None) -> Server:
    """The server, before it listens; it calls `begun` when it does."""
    config = uvicorn.Config(
        app,
        # What is installed beside uvicorn must not decide how requests are read.
        http=Protocol,
        loop="asyncio",
        ws="none",
        lifespan="off",
        h11_max_incomplete_event_size=LONGEST_HEAD,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        log_level="critical",  # what goes wrong in an answer is printed by `Closed`
        timeout_graceful_shutdown=0,
    )
    return Server(config, begun)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM are the ways to end the server: uvicorn raises them once more when it has, and that is heard
    by nobody."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, lambda *_: None) for each in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for each, own in before.items():
            signal.signal(each, own)


class Server(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._begun = begun

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._begun()


class Protocol(H11Protocol):
    """HTTP/1.1, where a request that is none is refused in the same manner as others."""

    def send_400_response(self, msg: str) -> None:
        """Answer to bytes that are no request."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = as_json({"error": "This is no request that HTTP knows."})
            headers = [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("X-Content-Type-Options", "nosniff"),
                ("Cache-Control", "no-store"),
                ("Connection", "close"),
            ]
            for event in (
                h11.Response(status_code=400, headers=headers, reason="Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
