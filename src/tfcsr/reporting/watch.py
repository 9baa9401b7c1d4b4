"""The live page: the report's, served to this machine alone, with updates pushed as they come. It only reads.

Every user of a machine reaches its ports: the address has a token, and who does not know it is told nothing.
"""

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tfcsr.errors import OutputError, SpecError, printable
from tfcsr.experiments.reading import Results
from tfcsr.reporting.report import ROOM, render
from tfcsr.reporting.view import document

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_TRIES = 0.2  # for a folder that is not there yet
SHARE_OF_TIME = 0.2  # at most, for looking: a folder of ten thousand runs is looked at less often
SECONDS_BETWEEN_SIGNS = 15.0  # of life, for a reader whom nothing new is sent
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Watch:
    """A results folder that is looked at as long as somebody watches."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.number = 0  # of the document's version: a client with a smaller one gets it
        self.document = ""
        self._cost = 0.0
        self._looked = -float("inf")
        self._lock = asyncio.Lock()

    async def look(self, *, wait: bool) -> None:
        """Once for all who watch, however many they are; who will not wait takes what is known if that is recent."""
        asked = time.monotonic()
        async with self._lock:
            pause = self._looked + max(SECONDS_BETWEEN_LOOKS, self._cost / SHARE_OF_TIME) - time.monotonic()
            if self._looked > asked or (pause > 0 and not wait):
                return
            await asyncio.sleep(max(0.0, pause))
            await asyncio.to_thread(self._look)

    def _look(self) -> None:
        started = time.monotonic()
        if self.results.look() or not self.number:
            self.document = document(self.results, live=True, room=ROOM)
            self.number += 1
        self._looked = time.monotonic()
        self._cost = self._looked - started

    async def told(self, leaving: Callable[[], bool]) -> AsyncIterator[str]:
        """Server-sent events: the whole document whenever anything in it has changed."""
        seen, spoke = 0, time.monotonic()
        yield "retry: 1000\n\n"
        while not leaving():
            if seen != self.number:
                seen, spoke = self.number, time.monotonic()
                yield f"id: {seen}\ndata: {self.document}\n\n"
            elif time.monotonic() - spoke > SECONDS_BETWEEN_SIGNS:
                spoke = time.monotonic()
                yield ": nothing new\n\n"
            if seen == self.number:
                await self.look(wait=True)


class _OnlyWithToken:
    """Lets only requests pass whose path begins with the token."""

    def __init__(self, app: "ASGIApp", token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        from starlette.responses import PlainTextResponse

        given = str(scope.get("path", "")).removeprefix("/").partition("/")[0]
        # In the same time whatever is given: nobody can guess it sign by sign.
        known = secrets.compare_digest(given.encode(errors="replace"), self.token)
        app = self.app if known else PlainTextResponse("Not Found", 404, headers=HEADERS)
        await app(scope, receive, send)


def application(results: Results, token: str, leaving: Callable[[], bool] = lambda: False) -> "Starlette":
    """Everything is below `/TOKEN/`; there is nothing elsewhere."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, Response, StreamingResponse
    from starlette.routing import Route

    watch = Watch(results)

    async def page(request: "Request") -> "Response":
        await watch.look(wait=False)
        return HTMLResponse(await asyncio.to_thread(render, watch.document, live=True), headers=HEADERS)

    async def data(request: "Request") -> "Response":
        await watch.look(wait=False)
        return Response(watch.document, media_type="application/json", headers=HEADERS)

    async def events(request: "Request") -> "Response":
        return StreamingResponse(watch.told(leaving), media_type="text/event-stream", headers=HEADERS)

    # A page elsewhere can make a name of its own point here; what it cannot do is to be called by one of ours.
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False)
    secret = Middleware(_OnlyWithToken, token=token)
    places = {"": page, "data.json": data, "events": events}
    routes = [Route(f"/{{token}}/{name}", answer) for name, answer in places.items()]
    return Starlette(routes=routes, middleware=[trusted, secret])


def _wait_for(folder: Path, say: Callable[[str], None]) -> None:
    """Until the folder is there. What is no folder, and can hold none, is refused."""
    said = False
    while True:
        try:
            there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
            is_folder = there.is_dir()
        except OSError as error:
            raise OutputError(f"cannot read {folder}: {error.strerror}") from None
        if not is_folder:
            raise OutputError(f"{there} is not a folder: give the folder of a run, or of a comparison")
        if there == folder:
            return
        if not said:
            say(printable(f"waiting for {folder} ... it is not there yet"))
            said = True
        time.sleep(SECONDS_BETWEEN_TRIES)


def serve(folder: str | Path, host: str = "127.0.0.1", port: int = 0, say: Callable[[str], None] = print) -> None:
    """Until Ctrl-C. A folder that is not there yet is waited for. Port 0 is any that is free. Only `say` is told the
    address.
    """
    if host not in HOSTS:
        raise SpecError(
            f"host {host!r} is refused: only this machine may see it; use 127.0.0.1, and a tunnel (ssh -L) to look from"
            " elsewhere"
        )
    if not 0 <= port < 1 << 16:
        raise SpecError(f"port {port} is impossible: it must be between 0 and 65535, 0 for any that is free")
    import uvicorn

    token = secrets.token_urlsafe()
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1", port))
            door.listen()  # whoever follows the address at once waits a moment, and is not turned away
        except OSError as error:
            raise OutputError(f"cannot listen on port {port}: {error.strerror}; choose another --port, or 0") from None
        try:
            _wait_for(Path(folder), say)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(printable(f"no longer waiting for {folder}")) from None
        config = uvicorn.Config(
            application(Results(folder), token, lambda: server.should_exit),
            log_level="critical",
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        say(f"http://{host}:{door.getsockname()[1]}/{token}/")
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[door])
        raise KeyboardInterrupt("no longer watching; the runs go on")  # nothing else ends it
