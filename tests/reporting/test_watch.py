"""The server, as a process of its own. What a browser makes of its page is in test_browser.py."""

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.experiments.conftest import Started, one_line, start
from tests.reporting.conftest import one_run
from tfcsr.experiments.reading import Results
from tfcsr.reporting.watch import SECONDS_BETWEEN_LOOKS, Watch

__all__ = ["start"]  # a fixture

Begin = Callable[..., Started]


@pytest.fixture
def watch(start) -> Iterator[Callable[[Path], tuple[Started, int]]]:
    """Starts watching a folder; the process and its port."""

    def begin(folder: Path, *more: str) -> tuple[Started, int]:
        process = start("watch", str(folder), *more)
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), address + process.stderr.read()
        return process, int(address.rstrip("/").rpartition(":")[2])

    return begin


def ask(port: int, path: str = "/", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_only_this_machine_only_by_its_name_only_to_read(watch, grid):
    _, port = watch(grid)
    page = ask(port)
    assert page.status == 200
    assert b"connect-src &#39;self&#39;" in page.body
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in page.headers
    assert len(json.loads(ask(port, "/data.json").body)["runs"]) == 10
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "169.254.0.1"):
        assert ask(port, Host=host).status == 400, host
    for host in ("localhost", f"localhost:{port}", "127.0.0.1"):
        assert ask(port, "/data.json", Host=host).status == 200, host
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(port, "/data.json", method).status == 405
    for path in ("/x", "/../../etc/passwd", "/events.jsonl", "//127.0.0.1/"):
        assert ask(port, path).status == 404
    addresses = {address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        if not address.startswith("127."):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address, port), timeout=5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_and_quietly_even_while_somebody_watches(watch, grid, number):
    process, port = watch(grid)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    assert answer.readline() == b"retry: 1000\n"
    process.send_signal(number)
    out, said = process.communicate(timeout=10)
    connection.close()
    if number == signal.SIGINT:
        assert (process.returncode, out, said) == (130, "", "tfcsr: no longer watching; the runs go on\n")
    else:
        assert (process.returncode, out, said) == (-number, "", "")


def test_mistakes_are_one_line(start, watch, grid, tmp_path):
    _, port = watch(tmp_path)  # with nothing in it: it waits
    assert json.loads(ask(port, "/data.json").body)["runs"] == []
    for arguments, words in (
        ([str(tmp_path / "absent")], "does not exist"),
        ([str(grid), "--host", "0.0.0.0"], "only this machine may see it"),
        ([str(grid), "--host", "example.org"], "host 'example.org' is refused"),
        ([str(grid), "--port", str(port)], f"cannot listen on port {port}: Address already in use"),
        ([str(grid), "--port", "65536"], "port 65536 is impossible"),
        ([str(grid), "--port", "http"], "port 'http' is not a whole number"),
    ):
        assert words in one_line(start("watch", *arguments), 2)


def test_news_come_when_there_are_any_and_only_then(watch, copy):
    _, port = watch(copy)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"].startswith("text/event-stream")

    def told() -> dict:
        while not (line := answer.readline()).startswith(b"data: "):
            assert line
        return json.loads(line.removeprefix(b"data: "))

    assert told()["counts"] == {"complete": 10}
    timer = threading.Timer(2.5 * SECONDS_BETWEEN_LOOKS, (one_run(copy) / "result.json").write_text, ("spoiled",))
    timer.start()
    assert told()["counts"] == {"damaged": 1, "complete": 9}  # and not once more the same
    connection.close()


def test_many_who_watch_cost_one_look(grid, monkeypatch):
    monkeypatch.setattr("tfcsr.reporting.watch.SECONDS_BETWEEN_LOOKS", 0.05)

    async def main() -> int:
        results = Results(grid)
        looks = 0
        real = results.look

        def look() -> bool:
            nonlocal looks
            looks += 1
            return real()

        results.look = look  # type: ignore[method-assign]
        watch = Watch(results)
        await asyncio.gather(*(watch.look(wait=False) for _ in range(20)))
        assert (looks, watch.number) == (1, 1)
        await asyncio.gather(*(watch.look(wait=True) for _ in range(20)))
        assert watch.number == 1
        return looks

    assert asyncio.run(main()) == 2


def test_watching_imports_no_torch(grid):
    check = f"from tfcsr.reporting.watch import *; application(Results(r'{grid}'))"
    check += "\nimport sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
