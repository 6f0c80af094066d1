"""What protects the inspector's server: only its own page, under its own address, gets responses.

Every page that is open in the same browser can send requests to 127.0.0.1. Three things keep it out:

- **Host.** A stranger's name that is made to resolve to 127.0.0.1 (DNS rebinding) gives the stranger's page the origin
  of this server, but the browser still sends that name. Only names that nobody else can own are accepted. (Starlette's
  TrustedHostMiddleware ignores the port, and cannot accept every IP address while it refuses every other name.)
- **Origin and Sec-Fetch-Site.** The browser, not the page, says where a request comes from. Requests of other pages are
  refused, so that none can begin games, or learn from sizes or times what is here.
- **Headers of every response**: a browser does not run, frame, guess at or store it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfec.inspector.api import as_json, shown

METHODS = ("GET", "HEAD", "POST")
LONGEST_TARGET = 8_192  # bytes of a request's path and query; 200 thumbnails are named in less than 4,200


@dataclass(frozen=True)
class Address:
    """Where the server listens, and the names that it goes by."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host.lower() == "localhost" or (_is_ip(self.host) and ipaddress.ip_address(self.host).is_loopback)

    @property
    def url(self) -> str:
        """The page, as a browser on this machine finds it."""
        wildcard = _is_ip(self.host) and ipaddress.ip_address(self.host).is_unspecified
        host = "127.0.0.1" if wildcard else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def accepts(self, host: str, port: int) -> bool:
        """Whether that is this server.

        On a network it has many addresses, and some are not this machine's own (a forwarded port). Every IP address is
        accepted: a browser that asks for one uses no name that somebody could have made to mean it. Of names, only this
        machine's own are.
        """
        names = {self.host.lower(), "localhost", "127.0.0.1", "::1"}
        if not self.loopback:
            names.add(socket.gethostname().lower())
        return port == self.port and (host in names or (not self.loopback and _is_ip(host)))


class Refused(Exception):
    """A request that is refused: its response is a status and this sentence."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers


class SecurityMiddleware:
    """Refuses requests that do not come from the inspector's own page, and puts the headers on every response."""

    def __init__(self, app: ASGIApp, *, address: Address, policy: str) -> None:
        self._app = app
        self._address = address
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            # Tomorrow another run may be at this address; the page keeps what it has seen itself.
            "Cache-Control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request."""
        if scope["type"] != "http":  # the start and the end of the server; there are no web sockets
            await self._app(scope, receive, send)
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            check(self._address, scope)
            await self._app(scope, receive, send_with_headers)
        except Refused as refused:
            await error_response(refused)(scope, receive, send_with_headers)
        except Exception:
            # What went wrong is for the terminal; it may tell more about this machine than a page should know.
            traceback.print_exc(file=sys.stderr)
            if started:
                raise
            failed = Refused(500, "Something went wrong here; the terminal of `mfec inspect` says what.")
            await error_response(failed)(scope, receive, send_with_headers)


def check(address: Address, scope: Scope) -> None:
    """Refuse a request that is not from the inspector's own page, or that no browser would send."""
    method, path, headers = scope["method"], scope["raw_path"], Headers(scope=scope)
    own = _check_host(address, headers)
    if method not in METHODS:
        raise Refused(405, f"{shown(method)} is not answered here: GET is.", {"Allow": ", ".join(METHODS)})
    if len(path) + len(scope["query_string"]) > LONGEST_TARGET:
        raise Refused(414, f"The address is longer than {LONGEST_TARGET:,} characters.")
    if not path.startswith(b"/"):
        raise Refused(400, "A request names a path of this server, not an address.")
    if b"%" in path:  # no path here needs it, and it is how other paths are spelled
        raise Refused(404, "There is nothing at this address.")
    _check_origin(own, method, path, headers)


def _check_host(address: Address, headers: Headers) -> tuple[str, int]:
    given = headers.getlist("host")
    own = _authority(given[0]) if len(given) == 1 else None
    if own is None or not address.accepts(*own):
        named = f"not as {shown(given[0])}" if len(given) == 1 else "and a request must name it once"
        raise Refused(403, f"This server answers only under its own address, {address.url}, {named}.")
    return own


def _check_origin(own: tuple[str, int], method: str, path: bytes, headers: Headers) -> None:
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    for origin in origins:
        if not origin.lower().startswith("http://") or _authority(origin[len("http://") :]) != own:
            raise Refused(403, f"Only the page of this server is answered, not {shown(origin)}.")
    if any(site not in ("same-origin", "none") for site in sites) and not _follows_a_link(method, path, headers):
        raise Refused(403, "Only the page of this server is answered, not a page from elsewhere.")
    if method == "POST":
        # "none" is no page at all but an address that was typed, which is never a POST. Without either header nobody
        # vouches for the request: an old browser, or a form.
        if not origins and sites != ["same-origin"]:
            raise Refused(403, "A game is begun by the page of this server: a POST needs an Origin.")
        # What a form of another page can send without asking first never has this type.
        if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise Refused(415, "A POST needs the Content-Type application/json.")


def _follows_a_link(method: str, path: bytes, headers: Headers) -> bool:
    """Whether somebody clicked on a link to the page, in a chat or a notebook.

    That is harmless: the page itself is the same for everybody, it becomes a window of its own whose opener can neither
    read nor steer it, and what it then asks for is asked by itself. A frame, a picture or a script is none of that.
    """
    asked = (headers.getlist("sec-fetch-mode"), headers.getlist("sec-fetch-dest"))
    return method == "GET" and path == b"/" and asked == (["navigate"], ["document"])


def error_response(refused: Refused) -> Response:
    """The response to a request that is refused."""
    content = as_json({"error": refused.sentence})
    return Response(content, refused.status, refused.headers, media_type="application/json")


_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")


def _authority(text: str) -> tuple[str, int] | None:
    """Host and port of `host:port`, an IPv6 address in its shortest form; None if it is nothing of the kind."""
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None:
        return None
    bracketed, name, port = found.groups()
    if bracketed is None:
        return name, int(port or 80)
    return (str(ipaddress.ip_address(bracketed)), int(port or 80)) if _is_ip(bracketed) else None


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
