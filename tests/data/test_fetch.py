"""Fetching, against a server on this machine."""

import hashlib
import http.server
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pooch
import pytest

from tfcsr.data import sources

FILES = {"one.gz": b"first " * 100_000, "two.gz": b"second"}


class Server:
    """Serves `answers`: of each name the status, the content and the headers."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.asked: list[str] = []
        self.delay_s = 0.0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                outer.asked.append(name)
                time.sleep(outer.delay_s)
                status, content, headers = outer.answers.get(name, (404, b"", {}))
                try:
                    self.send_response(status)
                    for key, value in ({"Content-Length": str(len(content))} | headers).items():
                        self.send_header(key, value)
                    self.end_headers()
                    self.wfile.write(content)
                except ConnectionError:  # the client may hang up, and is meant to
                    pass

            def log_message(self, *_: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.http.server_port
        self.url = f"http://127.0.0.1:{self.port}/data/"

    def serve(self, **contents: bytes) -> None:
        self.answers = {f"{name}.gz": (200, content, {}) for name, content in contents.items()}


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    running = Server()
    running.serve(one=FILES["one.gz"], two=FILES["two.gz"])
    thread = threading.Thread(target=running.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.http.shutdown()
    running.http.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _small(server, monkeypatch):
    items = tuple(
        sources.Download(f"sub/{name}", len(content), hashlib.md5(content).hexdigest(), (f"sub/{name[:-3]}",))
        for name, content in FILES.items()
    )
    monkeypatch.setattr(sources, "DOWNLOADS", {"mnist": items})
    monkeypatch.setattr(sources, "MIRRORS", {"mnist": (server.url,)})
    monkeypatch.setattr(sources, "SCHEME", "http://127.0.0.1:")


def dead_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/dead/"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_fetches_once(server, tmp_path, capfd):
    pooch.get_logger().setLevel(logging.INFO)
    found = sources.fetch("mnist", str(tmp_path))
    assert found == [tmp_path / "sub" / "one.gz", tmp_path / "sub" / "two.gz"]
    assert [path.read_bytes() for path in found] == list(FILES.values())
    assert files(tmp_path) == ["one.gz", "two.gz"]
    assert server.asked == ["one.gz", "two.gz"]
    assert sources.fetch("mnist", str(tmp_path)) == found
    assert server.asked == ["one.gz", "two.gz"]
    assert capfd.readouterr() == ("", "")
    assert not pooch.get_logger().isEnabledFor(logging.WARNING)


def test_into_the_cache_and_not_where_data_is_read_from(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCSR_DATA", str(tmp_path / "mine"))
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    assert sources.fetch("mnist")[0] == tmp_path / "cache" / "tfcsr" / "sub" / "one.gz"
    assert not (tmp_path / "mine").exists()


def test_unpacked_official_file_is_not_fetched(server, tmp_path, monkeypatch):
    unpacked = tmp_path / "sub" / "one"
    unpacked.parent.mkdir()
    unpacked.write_bytes(b"unpacked")
    official = {"mnist": {"one": hashlib.md5(b"unpacked").hexdigest()}}
    monkeypatch.setattr(sources, "OFFICIAL", official)
    assert sources.fetch("mnist", str(tmp_path)) == [unpacked, tmp_path / "sub" / "two.gz"]
    assert server.asked == ["two.gz"]
    unpacked.write_bytes(b"not it")
    assert sources.fetch("mnist", str(tmp_path))[0] == tmp_path / "sub" / "one.gz"


def test_damaged_file_is_fetched_again(server, tmp_path):
    sources.fetch("mnist", str(tmp_path))
    (tmp_path / "sub" / "two.gz").write_bytes(b"damage")
    sources.fetch("mnist", str(tmp_path))
    assert (tmp_path / "sub" / "two.gz").read_bytes() == FILES["two.gz"]
    assert server.asked == ["one.gz", "two.gz", "two.gz"]


def test_second_mirror(server, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MIRRORS", {"mnist": (dead_url(), server.url)})
    sources.fetch("mnist", str(tmp_path))
    assert files(tmp_path) == ["one.gz", "two.gz"]


def test_all_mirrors_dead(server, tmp_path, monkeypatch, refused):
    mirrors = (dead_url(), dead_url())
    monkeypatch.setattr(sources, "MIRRORS", {"mnist": mirrors})
    with refused(
        "cannot download one.gz",
        *(f"{mirror}one.gz (ConnectionError)" for mirror in mirrors),
        "get one.gz, two.gz",
        tmp_path / "sub",
    ):
        sources.fetch("mnist", str(tmp_path))
    assert files(tmp_path) == []


def test_file_not_on_the_mirror(server, tmp_path, refused):
    server.serve(one=FILES["one.gz"])
    with refused("cannot download two.gz", f"{server.url}two.gz (HTTP 404)"):
        sources.fetch("mnist", str(tmp_path))
    assert files(tmp_path) == ["one.gz"]


def test_wrong_checksum(server, tmp_path, refused):
    server.serve(one=bytes(reversed(FILES["one.gz"])))
    with refused(f"{server.url}one.gz (wrong checksum, expected md5 {hashlib.md5(FILES['one.gz']).hexdigest()})"):
        sources.fetch("mnist", str(tmp_path))
    assert files(tmp_path) == []


def test_wrong_checksum_leaves_the_old_file(server, tmp_path, refused):
    old = tmp_path / "sub" / "one.gz"
    old.parent.mkdir()
    old.write_bytes(b"old")
    server.serve(one=b"new")
    with refused("wrong checksum"):
        sources.fetch("mnist", str(tmp_path))
    assert old.read_bytes() == b"old"


def test_too_large(server, tmp_path, refused):
    server.serve(one=bytes(20_000_000))
    with refused(f"{server.url}one.gz (more than the expected 600000 bytes)"):
        sources.fetch("mnist", str(tmp_path))
    assert files(tmp_path) == []


def test_broken_off(server, tmp_path, refused):
    server.answers["one.gz"] = (200, FILES["one.gz"][:1000], {"Content-Length": "600000"})
    with refused("one.gz (ChunkedEncodingError)"):
        sources.fetch("mnist", str(tmp_path))
    assert files(tmp_path) == []


def test_silent_server(server, tmp_path, monkeypatch, refused):
    monkeypatch.setattr(sources, "TIMEOUT_S", (0.2, 0.2))
    server.delay_s = 0.6
    with refused("one.gz (ReadTimeout)"):
        sources.fetch("mnist", str(tmp_path))


def test_timeouts_are_short():
    assert max(sources.TIMEOUT_S) <= 15


def test_redirect_away_from_the_scheme(server, tmp_path, refused):
    elsewhere = f"http://localhost:{server.port}/two.gz"
    server.answers["one.gz"] = (302, b"", {"Location": elsewhere})
    with refused(f"led to {elsewhere}, which is not {sources.SCHEME}"):
        sources.fetch("mnist", str(tmp_path))
    assert files(tmp_path) == []


def test_folder_that_cannot_be_made(tmp_path, refused):
    (tmp_path / "sub").write_bytes(b"a file")
    with refused(tmp_path / "sub" / "one.gz", "cannot be written", "--data-dir"):
        sources.fetch("mnist", str(tmp_path))


def test_bar_only_on_a_terminal(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    sources.fetch("mnist", str(tmp_path))
    out, err = capsys.readouterr()
    assert out == ""
    assert "one.gz" in err
    assert "two.gz" in err


def test_bar_is_closed_when_the_download_fails(server, tmp_path, monkeypatch, refused):
    closed = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sources._Bar, "close", lambda bar: closed.append(bar.progress.stop()))
    server.serve()
    with refused("HTTP 404"):
        sources.fetch("mnist", str(tmp_path))
    assert closed
