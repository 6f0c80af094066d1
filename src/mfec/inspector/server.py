"""The inspector's server: where it listens, and how it begins and ends."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console

from mfec.errors import MfecError
from mfec.inspector import MISSING
from mfec.inspector.api import as_json, title_of
from mfec.inspector.app import MOST_GAMES, make_app
from mfec.inspector.inspection import Inspection

try:
    import h11
    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import HANDLED_SIGNALS

    from mfec.inspector.security import Address
except ImportError:
    raise ImportError(MISSING) from None

__all__ = ["MOST_GAMES", "listen", "make_server", "serve"]

PATIENCE = 3.0  # seconds that the end waits for requests under way
LONGEST_HEAD = 32_768  # bytes of a request's first line and headers


def serve(
    inspection: Inspection, *, host: str, port: int, console: Console, listening: socket.socket | None = None
) -> bool:
    """Show the page until Ctrl-C or SIGTERM, and close the inspection.

    `listening` is a socket that `listen` has opened there before. Returns whether all threads have ended: one that is
    playing an episode again is waited for, but not for long.
    """
    listening = listening or listen(host, port)
    address = Address(host, listening.getsockname()[1])
    app = make_app(inspection, host=address.host, port=address.port, title=title_of(inspection.run()))

    def say_where() -> None:
        said = [f"the page is at {address.url}"]
        if not address.loopback:
            said.append("everybody who can reach this port can look at the run, and have games played")
        for each in [*said, "stop with Ctrl-C"]:
            console.print(each, highlight=False, markup=False, soft_wrap=True)

    with contextlib.closing(listening), ended_by_signals():
        make_server(app, begun=say_where).run(sockets=[listening])
        inspection.close()
        until = time.monotonic() + PATIENCE
        return all(threads.wait(until) for threads in app.state.threads)


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
        log_level="critical",  # `SecurityMiddleware` prints what goes wrong
        timeout_graceful_shutdown=0,
    )
    return Server(config, begun)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the server. uvicorn raises them once more when it has ended, and that is ignored here."""
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
    """Calls `begun` when it listens."""

    def __init__(self, config: uvicorn.Config, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._begun = begun

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._begun()


class Protocol(H11Protocol):
    """HTTP/1.1; bytes that are no request get an error in JSON, too."""

    def send_400_response(self, msg: str) -> None:
        """Respond to bytes that are no request."""
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
