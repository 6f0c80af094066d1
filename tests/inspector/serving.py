"""The inspector's server in a thread, and requests to it: as a browser sends them, and as none would."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from mfec.inspector.app import make_app
from mfec.inspector.inspection import Inspection
from mfec.inspector.server import listen, make_server

from ..waiting import PATIENCE


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    headers: dict[str, str]  # by lower-case name
    body: bytes

    @property
    def json(self) -> Any:
        """The answer, where it is JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of a refusal."""
        assert self.headers["content-type"] == "application/json"
        [(name, sentence)] = self.json.items()
        assert name == "error"
        assert sentence.endswith(".")
        assert "Traceback" not in sentence
        return str(sentence)


@dataclass(frozen=True)
class Served:
    """A server that listens."""

    port: int
    inspection: Inspection

    @property
    def host(self) -> str:
        """What a browser calls it."""
        return f"127.0.0.1:{self.port}"

    def ask(self, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str | None) -> Reply:
        """Ask as a browser does; a header that is None is not sent, and sec_fetch_site is Sec-Fetch-Site."""
        given = {"Host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())

    def post(self, body: bytes = b"{}", **headers: str | None) -> Reply:
        """Begin a game as the page does."""
        given: dict[str, str | None] = {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
        return self.ask("/api/games", method="POST", body=body, **{**given, **headers})

    def send(self, data: bytes) -> bytes:
        """Send bytes, and give all that comes back until the server hangs up or says no more."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            with contextlib.suppress(OSError):  # it may hang up before it has read all
                connection.sendall(data)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            received = b""
            with contextlib.suppress(OSError):
                while part := connection.recv(65536):
                    received += part
            return received


@contextlib.contextmanager
def serving(inspection: Inspection, *, host: str = "127.0.0.1", title: str = "A page") -> Iterator[Served]:
    """A server on a free port, which listens to 127.0.0.1 as if it were told to listen to `host`."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server: uvicorn.Server = make_server(make_app(inspection, host=host, port=port, title=title))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Served(port, inspection)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()
