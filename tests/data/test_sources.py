import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pooch
import pytest

from tfcsr.data import cifar10, cifar100, fashion_mnist, mnist, sources

READERS = ("dataset", "digits", "idx", "mnist", "fashion_mnist", "cifar", "cifar10", "cifar100", "sources")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("TFCSR_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "tfcsr"


def put(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_folder_asked_for_is_the_only_one(monkeypatch):
    monkeypatch.setenv("TFCSR_DATA", "/elsewhere")
    assert sources.roots("/here") == [Path("/here")]


def test_then_the_environment_then_the_cache(monkeypatch, cache):
    assert sources.roots(None) == [cache]
    monkeypatch.setenv("TFCSR_DATA", "/elsewhere")
    assert sources.roots(None) == [Path("/elsewhere"), cache]
    monkeypatch.setenv("TFCSR_DATA", "")
    assert sources.roots(None) == [cache]


def test_home_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("USERPROFILE", "/home/someone")
    assert sources.roots("~/data") == [Path("/home/someone/data")]


def test_find_prefers_the_first_root_then_the_first_candidate(monkeypatch, tmp_path, cache):
    monkeypatch.setenv("TFCSR_DATA", str(tmp_path / "env"))
    last = put(cache / "a")
    assert sources.find("mnist", ["a", "b"], None) == last
    second = put(tmp_path / "env" / "b")
    assert sources.find("mnist", ["a", "b"], None) == second
    first = put(tmp_path / "env" / "a")
    assert sources.find("mnist", ["a", "b"], None) == first


def test_missing_says_where_and_what_to_do(monkeypatch, tmp_path, cache, refused):
    monkeypatch.setenv("TFCSR_DATA", str(tmp_path / "env"))
    with refused(
        "mnist: no train-images-idx3-ubyte in ",
        tmp_path / "env",
        cache,
        "run `tfcsr data fetch mnist`",
        "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz",
        Path("DIR/MNIST/raw"),
        "--data-dir",
        "TFCSR_DATA",
    ):
        sources.load("mnist")
    with refused("cifar100", "/nowhere", "`tfcsr data fetch cifar100 --data-dir /nowhere`"):
        sources.load("cifar100", "/nowhere")


@pytest.mark.parametrize("call", [sources.load, sources.fetch, sources.check, sources.describe])
def test_unknown_name(refused, call):
    with refused("'mnits'", "digits, mnist, fashion-mnist, cifar10, cifar100"):
        call("mnits")


def test_digits_need_no_files():
    assert sources.load("digits").name == "digits"
    assert sources.check("digits") == [("embedded in the package", "ok")]
    assert sources.describe("digits")[0] == "the package"
    assert sources.fetch("digits") == []


def test_describe_only_looks_whether_files_exist(tmp_path):
    assert sources.describe("mnist", str(tmp_path)) == (None, sources.ABOUT["mnist"])
    for item in sources.DOWNLOADS["mnist"]:
        assert sources.describe("mnist", str(tmp_path))[0] is None
        put(tmp_path / item.path, b"nonsense")
    assert sources.describe("mnist", str(tmp_path)) == (str(tmp_path / "MNIST" / "raw"), sources.ABOUT["mnist"])
    archive = put(tmp_path / "cifar-100-binary.tar.gz")
    assert sources.describe("cifar100", str(tmp_path))[0] == str(archive)
    for name in ("train.bin", "test.bin"):
        folder = put(tmp_path / "cifar-100-binary" / name).parent
    assert sources.describe("cifar100", str(tmp_path))[0] == str(folder)


def test_check_compares_the_unpacked_content(monkeypatch, tmp_path):
    monkeypatch.setattr(mnist, "load", lambda _: None)
    plain = put(tmp_path / "train-images-idx3-ubyte", b"a")
    for item in sources.DOWNLOADS["mnist"][1:]:
        put(tmp_path / item.path, gzip.compress(b"b"))
    monkeypatch.setitem(sources.OFFICIAL["mnist"], plain.name, hashlib.md5(b"a").hexdigest())
    monkeypatch.setitem(sources.OFFICIAL["mnist"], "t10k-labels-idx1-ubyte", hashlib.md5(b"b").hexdigest())
    assert sources.check("mnist", str(tmp_path)) == [
        ("train-images-idx3-ubyte", "ok, official checksum"),
        ("train-labels-idx1-ubyte.gz", "ok, content valid, not the official file"),
        ("t10k-images-idx3-ubyte.gz", "ok, content valid, not the official file"),
        ("t10k-labels-idx1-ubyte.gz", "ok, official checksum"),
    ]


@pytest.mark.parametrize(("name", "module"), [("cifar10", cifar10), ("cifar100", cifar100)])
def test_check_of_the_archive_is_of_the_file_itself(monkeypatch, tmp_path, name, module):
    monkeypatch.setattr(module, "load", lambda _: None)
    archive = put(tmp_path / sources.DOWNLOADS[name][0].path, b"not even gzip")
    monkeypatch.setitem(sources.OFFICIAL[name], archive.name, hashlib.md5(b"not even gzip").hexdigest())
    assert sources.check(name, str(tmp_path)) == [(archive.name, "ok, official checksum")]


def test_files_of_one_name_are_told_apart(monkeypatch, tmp_path):
    """Those of Fashion-MNIST are called what MNIST's are."""
    for module in (mnist, fashion_mnist):
        monkeypatch.setattr(module, "load", lambda _: None)
    contents = {"mnist": b"digits", "fashion-mnist": b"clothes"}
    for name, content in contents.items():
        for item in sources.DOWNLOADS[name]:
            put(tmp_path / item.unpacks_to[0], content)
            official = Path(item.unpacks_to[0]).name
            monkeypatch.setitem(sources.OFFICIAL[name], official, hashlib.md5(content).hexdigest())
    for name in contents:
        assert {state for _, state in sources.check(name, str(tmp_path))} == {"ok, official checksum"}
    put(tmp_path / "FashionMNIST/raw/train-images-idx3-ubyte", contents["mnist"])
    assert sources.check("fashion-mnist", str(tmp_path))[0][1] == "ok, content valid, not the official file"


def test_what_the_system_brought_is_looked_at_last_and_never_instead(monkeypatch, tmp_path, cache, refused):
    monkeypatch.setattr(sources, "INSTALLED", {"mnist": tmp_path / "system"})
    brought = put(tmp_path / "system" / "a")
    assert sources.find("mnist", ["a"], None) == brought
    with refused("no a in", "/elsewhere"):
        sources.find("mnist", ["a"], "/elsewhere")
    with refused("cifar100: no a in", cache):
        sources.find("cifar100", ["a"], None)
    with refused("no b in", cache, tmp_path / "system"):
        sources.find("mnist", ["b"], None)
    own = put(cache / "a")
    assert sources.find("mnist", ["a"], None) == own
    assert sources.users_own("mnist", [own]) == (own,)
    assert sources.users_own("mnist", [own, brought]) == ()
    assert sources.users_own("cifar100", [brought]) == (brought,)


def test_what_is_shipped_fits_together():
    assert sources.SCHEME == "https://"
    assert tuple(sources.DOWNLOADS) == tuple(sources.ABOUT) == sources.NAMES
    for name, mirrors in sources.MIRRORS.items():
        assert sources.DOWNLOADS[name]
        for mirror in mirrors:
            assert mirror.startswith("https://")
            assert mirror.endswith("/")
    assert sources.MIRRORS.keys() == sources.OFFICIAL.keys() == {*sources.NAMES} - {"digits"}
    for name, official in sources.OFFICIAL.items():
        items = sources.DOWNLOADS[name]
        unpacked = {Path(path).name for item in items for path in item.unpacks_to}
        assert unpacked == official.keys() - {Path(item.path).name for item in items}
        for item in items:  # an archive that is read as it is
            assert official.get(Path(item.path).name, item.md5) == item.md5
    for name in sources.INSTALLED:
        assert name in sources.NAMES
    sums = [md5 for official in sources.OFFICIAL.values() for md5 in official.values()]
    assert len(set(sums)) == len(sums)
    assert all(len(md5) == 32 and int(md5, 16) for md5 in sums)


def test_the_names_a_loader_reads_are_those_that_are_fetched(tmp_path):
    for name in sources.OFFICIAL:
        for path in (path for item in sources.DOWNLOADS[name] for path in item.unpacks_to):
            put(tmp_path / path)
        found = sources._paths(name, str(tmp_path))
        assert [path.name for path in found] == [
            Path(path).name for item in sources.DOWNLOADS[name] for path in item.unpacks_to
        ]


def test_importing_is_cheap():
    modules = ", ".join(f"tfcsr.data.{name}" for name in READERS)
    heavy = "{'torch', 'sklearn', 'pooch', 'requests', 'rich'}"
    code = f"import sys, {modules}; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
