"""The inspector's web application: one page, and the data of one run that it asks for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mfec.errors import MfecError
from mfec.inspector import MISSING
from mfec.inspector.api import ENDPOINTS, BadRequest, Endpoint, as_json, number, places
from mfec.inspector.document import page_document
from mfec.inspector.inspection import Inspection, NotThere

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from mfec.inspector.security import Address, Refused, SecurityMiddleware, error_response
except ImportError:
    raise ImportError(MISSING) from None

T = TypeVar("T")

LONGEST_BODY = 512  # bytes of a POST
MOST_GAMES = 100  # each stays in memory, with all of its pictures
QUICK, SLOW = 8, 4  # requests at a time: for what is there, and for what an episode may have to be played again


def make_app(inspection: Inspection, *, host: str, port: int, title: str) -> Starlette:
    """The page and its data, for a server that listens there."""
    html, policy = page_document(title=title)
    page = html.encode("utf-8", "backslashreplace")  # a directory's name may be no text
    quick, slow = Threads(QUICK), Threads(SLOW)
    beginning = threading.Lock()

    async def show_page(request: Request) -> Response:
        return Response(page, media_type="text/html")

    async def thumbnails(request: Request) -> Response:
        wanted = places(_only(request, "at"))
        return _json(await slow.run(lambda: as_json(inspection.thumbnails(wanted))))

    async def play(request: Request) -> Response:
        await _check_body(request)

        def begin() -> int:
            with beginning:
                return _begin_game(inspection)

        return _json(as_json({"game": await quick.run(begin)}), status=201)

    app = Starlette(
        routes=[
            Route("/", show_page),
            *(_route(endpoint, inspection, slow if endpoint.slow else quick) for endpoint in ENDPOINTS),
            Route("/api/thumbnails", thumbnails),
            Route("/api/games", play, methods=["POST"]),
        ],
        middleware=[Middleware(SecurityMiddleware, address=Address(host, port), policy=policy)],
        exception_handlers={
            HTTPException: _http_error,
            NotThere: _error(404),
            BadRequest: _error(400),
            MfecError: _error(409),  # it could be answered, but not now
        },
    )
    app.router.redirect_slashes = False
    app.state.threads = (quick, slow)
    return app


class Threads:
    """Runs work beside the server, so much at a time, in threads that need not end for the process to end."""

    def __init__(self, at_a_time: int) -> None:
        self._free = asyncio.Semaphore(at_a_time)
        self._at_work: set[threading.Thread] = set()

    async def run(self, work: Callable[[], T]) -> T:
        """What the work gives, or raises."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def finish(value: T | None, error: BaseException | None) -> None:
            if result.cancelled():
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)  # type: ignore[arg-type]

        def target() -> None:
            value, error = None, None
            try:
                value = work()
            except BaseException as raised:
                error = raised
            self._at_work.discard(threading.current_thread())
            with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(finish, value, error)

        async with self._free:
            thread = threading.Thread(target=target, name="request", daemon=True)
            self._at_work.add(thread)
            thread.start()
            return await result

    def wait(self, until: float) -> bool:
        """Wait for all of them until then (of `time.monotonic`); whether they have ended."""
        for thread in list(self._at_work):
            thread.join(max(0.0, until - time.monotonic()))
        return not self._at_work


def _route(endpoint: Endpoint, inspection: Inspection, threads: Threads) -> Route:
    async def respond(request: Request) -> Response:
        numbers = [number(request.path_params[name], name) for name in endpoint.numbers]

        def read() -> Response:
            found = endpoint.read(inspection, *numbers)
            if isinstance(found, bytes):
                return Response(found, media_type="application/octet-stream")
            return _json(as_json(found))

        return await threads.run(read)

    return Route(endpoint.address, respond)


def _begin_game(inspection: Inspection) -> int:
    """Begin a game for the page, one at a time and not without end."""
    games = int(inspection.run()["recorded_games"])
    if games >= MOST_GAMES:
        raise MfecError(f"{MOST_GAMES} games were played here; `mfec inspect` with another --seed plays others.")
    last = inspection.game(games - 1) if games else {"done": True}
    if not last["done"] and "error" not in last:
        raise MfecError("A game is being played; the next one can begin when it is over.")
    return inspection.play()


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _only(request: Request, name: str) -> str:
    """The one parameter of a query that has no other."""
    given = request.query_params.multi_items()
    if [each for each, _ in given] != [name]:
        raise BadRequest(f"The address needs ?{name}=... once, and nothing else.")
    return given[0][1]


async def _check_body(request: Request) -> None:
    """Refuse a body that is long, or says anything: there is nothing to say when a game begins."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            # The rest is not waited for.
            raise Refused(413, f"A body has at most {LONGEST_BODY} bytes here.", {"Connection": "close"})
    try:
        said = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        raise BadRequest("The body is no JSON: {} is all that is needed.") from None
    if said != {}:
        raise BadRequest("The body asks for something that is not known here: {} is all that is needed.")


def _error(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, error: Exception) -> Response:
        said = str(error) or "This cannot be answered"
        return error_response(Refused(status, f"{said[:1].upper()}{said[1:].removesuffix('.')}."))

    return respond


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {
        404: "There is nothing at this address.",
        405: f"{request.method} is not answered at this address.",
    }.get(error.status_code, f"{error.detail}.")
    return error_response(Refused(error.status_code, said, error.headers))
