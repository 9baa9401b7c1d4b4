"""The server, as a process of its own. What a browser makes of its page is in test_browser.py."""

import asyncio
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import make_spec
from tests.experiments.conftest import Started, one_line, start
from tests.reporting.conftest import one_run
from tfcsr.experiments.plan import announced
from tfcsr.experiments.reading import Outlook, Results
from tfcsr.reporting.view import document
from tfcsr.reporting.watch import SECONDS_BETWEEN_LOOKS, Watch
from tfcsr.reporting.words import headline

__all__ = ["start"]  # a fixture


ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+/[\w-]+)/\n")
# The command line, but with this token: as it is after a server has come back to a page that is open.
WITH_TOKEN = """
import secrets, sys
token = sys.argv.pop(1)
secrets.token_urlsafe = lambda: token
from tfcsr.cli import main
main()
"""


@pytest.fixture
def watch(start) -> Iterator[Callable[..., tuple[Started, str]]]:
    """Starts watching a folder; the process, and its door: port and token as they stand in the address. A door may be
    given as the port to be opened again.
    """

    def begin(folder: Path, *more: str) -> tuple[Started, str]:
        port, _, token = more[-1].partition("/") if more else ("", "", "")
        if token:
            process = start("-c", WITH_TOKEN, token, "watch", str(folder), *more[:-1], port, module="")
        else:
            process = start("watch", str(folder), *more)
        return process, door_of(process)

    return begin


def door_of(process: Started) -> str:
    line = process.stdout.readline()
    found = ADDRESS.fullmatch(line)
    assert found, line + process.stderr.read()
    return found[1]


def ask(door: str, path: str = "", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    """What is answered below the token; or at a path of its own, if that begins with a slash."""
    port, _, token = door.partition("/")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    connection.request(method, path if path.startswith("/") else f"/{token}/{path}", headers=headers)
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def listening(door: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    port, _, token = door.partition("/")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    connection.request("GET", f"/{token}/events")
    return connection, connection.getresponse()


def test_only_this_machine_only_by_its_name_only_to_read(watch, grid):
    _, door = watch(grid)
    port = int(door.partition("/")[0])
    page = ask(door)
    assert page.status == 200
    assert b"connect-src &#39;self&#39;" in page.body
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in page.headers
    assert len(json.loads(ask(door, "data.json").body)["runs"]) == 10
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "169.254.0.1"):
        assert ask(door, Host=host).status == 400, host
    for host in ("localhost", f"localhost:{port}", "127.0.0.1"):
        assert ask(door, "data.json", Host=host).status == 200, host
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(door, "data.json", method).status == 405
    for path in ("x", "../../../etc/passwd", "events.jsonl", "/../../etc/passwd"):
        assert ask(door, path).status == 404
    addresses = {address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        if not address.startswith("127."):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address, port), timeout=5)


def test_who_does_not_know_the_token_is_told_nothing(watch, grid, start):
    _, door = watch(grid)
    token = door.partition("/")[2]
    assert len(token) >= 43  # 256 bits
    others = ["", "x", token[:-1], f"{token}x", token.swapcase(), f"{token[:-1]}%00", "%C3%BC", "%FF", f"/{token}", "."]
    for method in ("GET", "HEAD", "POST"):
        for path in [f"/{other}{rest}" for other in others for rest in ("", "/", "/data.json", "/events")]:
            answer = ask(door, path, method)
            assert (answer.status, answer.body) == (404, b"" if method == "HEAD" else b"Not Found"), path
    for path in ("/", "/data.json", "/events", f"/data.json?{token}", f"//{token}/data.json"):
        assert ask(door, path, Cookie=f"token={token}", Authorization=f"Bearer {token}").status == 404
    assert ask(door, f"/{token}").headers["Location"].endswith(f"/{token}/")
    assert watch(grid)[1].partition("/")[2] != token


def test_a_folder_that_is_not_there_yet_is_waited_for(start, copy, tmp_path):
    process = start("watch", str(tmp_path / "deep" / "coming"))
    assert process.stdout.readline() == f"waiting for {tmp_path}/deep/coming ... it is not there yet\n"
    (tmp_path / "deep").mkdir()
    copy.rename(tmp_path / "deep" / "coming")
    assert len(json.loads(ask(door_of(process), "data.json").body)["runs"]) == 10


def test_waiting_ends_cleanly(start, tmp_path):
    process = start("watch", "absent", cwd=tmp_path)
    assert process.stdout.readline() == "waiting for absent ... it is not there yet\n"
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=10)
    assert (process.returncode, out, said) == (130, "", "tfcsr: no longer waiting for absent\n")
    process = start("watch", "absent", cwd=tmp_path)
    process.stdout.readline()
    (tmp_path / "absent").touch()
    assert "absent is not a folder" in one_line(process, 2)


def test_what_is_said_of_a_plan(tmp_path):
    results = Results(tmp_path)
    specs = [make_spec(method="er", out=str(tmp_path / f"er-{seed}")) for seed in range(8)]
    assert headline({}, results.outlook()) == "No run yet: this page waits for the first."
    with announced(specs, 2):
        results.look()
        assert json.loads(document(results, live=True))["headline"] == "8 runs: 8 to come."
        assert headline({"running": 2, "complete": 1}, Outlook(5, 40.2)) == (
            "8 runs: 1 complete, 2 running, 5 to come. What is left needs about 40 s more."
        )
    assert headline({"running": 1}, Outlook(0, 0.2)) == "1 run: 1 running. What is under way needs about 1 s more."
    assert headline({"complete": 1}, Outlook(0, None)) == "1 run: 1 complete."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_and_quietly_even_while_somebody_watches(watch, grid, number):
    process, door = watch(grid)
    connection, answer = listening(door)
    assert answer.readline() == b"retry: 1000\n"
    process.send_signal(number)
    out, said = process.communicate(timeout=10)
    connection.close()
    if number == signal.SIGINT:
        assert (process.returncode, out, said) == (130, "", "tfcsr: no longer watching; the runs go on\n")
    else:
        assert (process.returncode, out, said) == (-number, "", "")


def test_mistakes_are_one_line(start, watch, grid, tmp_path):
    _, door = watch(tmp_path)  # with nothing in it: it waits
    assert json.loads(ask(door, "data.json").body)["runs"] == []
    port = door.partition("/")[0]
    (tmp_path / "file").touch()
    for arguments, words in (
        ([str(tmp_path / "file")], "file is not a folder: give the folder of a run"),
        ([str(tmp_path / "file" / "below")], "file is not a folder: give the folder of a run"),
        ([str(tmp_path / "absent"), "--port", "-1"], "port -1 is impossible"),  # before it waits
        ([str(grid), "--host", "0.0.0.0"], "only this machine may see it"),
        ([str(grid), "--host", "example.org"], "host 'example.org' is refused"),
        ([str(grid), "--port", port], f"cannot listen on port {port}: Address already in use"),
        ([str(grid), "--port", "65536"], "port 65536 is impossible"),
        ([str(grid), "--port", "http"], "port 'http' is not a whole number"),
    ):
        assert words in one_line(start("watch", *arguments), 2)


def test_news_come_when_there_are_any_and_only_then(watch, copy):
    _, door = watch(copy)
    connection, answer = listening(door)
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
    check = f"from tfcsr.reporting.watch import *; application(Results(r'{grid}'), 'token')"
    check += "\nimport sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
