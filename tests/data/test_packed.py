import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.conftest import spoil

from tfcsr.data import folders, packed
from tfcsr.data.dataset import Moments, for_testing
from tfcsr.data.mapped import Mapped
from tfcsr.data.packed import PLACE, pack
from tfcsr.errors import DataError, OutputError
from tfcsr.files import locked

# Mapped files.


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pages_are_given_back_and_read_again(tmp_path):
    size = 32 << 20
    expected = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    (tmp_path / "x").write_bytes(expected.tobytes())
    mapped = Mapped(tmp_path / "x", 0, (4, size // 4))
    before = resident()
    assert np.array_equal(mapped.tensor.numpy().reshape(-1), expected)
    full = resident()
    mapped.release()
    assert full - before > size * 0.9
    assert resident() - before < size * 0.1
    assert np.array_equal(mapped.tensor.numpy().reshape(-1), expected)


def test_a_file_is_never_changed(tmp_path):
    (tmp_path / "x").write_bytes(bytes(range(100)))
    mapped = Mapped(tmp_path / "x", 10, (2, 5))
    mapped.tensor.zero_()
    assert mapped.tensor.sum() == 0
    assert (tmp_path / "x").read_bytes() == bytes(range(100))
    mapped.release()
    assert mapped.tensor.tolist() == [[10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]


@given(st.integers(0, 9000), st.integers(0, 4), st.integers(0, 300), st.sampled_from([torch.uint8, torch.float32]))
def test_any_part_of_a_file(tmp_path_factory, offset, rows, columns, dtype):
    path = tmp_path_factory.getbasetemp() / "mapped"
    if not path.exists():
        path.write_bytes(np.random.default_rng(0).bytes(20_000))
    expected = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    end = offset + rows * columns * dtype.itemsize
    found = Mapped(path, offset, (rows, columns), dtype)
    some = torch.tensor([rows - 1, 0, rows // 2] if rows else [], dtype=torch.int64)
    out = torch.empty((len(some), columns), dtype=dtype)
    if out.numel():
        found.gather(some, out)
        assert torch.equal(out.view(torch.uint8), found.tensor[some].view(torch.uint8))
    assert found.tensor.shape == (rows, columns)
    assert torch.equal(found.tensor.contiguous().view(torch.uint8).reshape(-1), expected[offset:end])
    found.release()


def test_a_file_larger_than_the_memory(tmp_path):
    path = tmp_path / "x"
    with path.open("wb") as file:
        try:
            file.truncate(1 << 42)
        except OSError:
            pytest.skip("this file system has no files so large")
    assert Mapped(path, 0, (1 << 20, 1 << 22)).tensor[-1, -1] == 0


def test_a_file_that_is_too_short_is_refused(tmp_path, refused):
    (tmp_path / "x").write_bytes(b"abc")
    for offset, shape in ((0, (4,)), (3, (1,)), (0, (1 << 60, 1 << 60)), (-1, (1,)), (0, (-1, -1))):
        with refused(tmp_path / "x", "3 bytes, too few"):
            Mapped(tmp_path / "x", offset, shape)
    with refused(tmp_path / "y", "No such file"):
        Mapped(tmp_path / "y", 0, (1,))


# What packing is built on.


@given(st.integers(1, 40), st.integers(1, 40))
def test_moments_do_not_depend_on_the_parts(first, second):
    x = np.random.default_rng(first).integers(0, 256, (first + second, 2, 3, 4), np.uint8)
    x[:, 1] = 7
    moments = Moments(2)
    moments.add(x[:first])
    moments.add(x[first:])
    mean, std = moments.mean_std()
    assert mean == pytest.approx((x / 255).mean(axis=(0, 2, 3)))
    assert std[0] == pytest.approx((x[:, 0] / 255).std())
    assert std[1] == 1.0


@given(st.lists(st.integers(2, 60), min_size=1, max_size=5), st.floats(0.01, 0.9))
def test_some_of_each_class_and_not_all_are_for_testing(counts, share):
    y = np.repeat(np.arange(len(counts)), counts)
    np.random.default_rng(0).shuffle(y)
    aside = for_testing(y, share, tuple("abcde"[: len(counts)]), "here")
    for label, count in enumerate(counts):
        found = int(aside[y == label].sum())
        assert 1 <= found < count
        assert abs(found - count * share) <= 1
        # By position within the class, whatever lies between.
        assert np.array_equal(aside[y == label], for_testing(np.zeros(count, np.int64), share, ("a",), "here"))


def test_with_a_fifth_it_is_every_fifth():
    assert np.flatnonzero(for_testing(np.zeros(17, np.int64), 0.2, ("a",), "")).tolist() == [4, 9, 14]
    assert np.flatnonzero(for_testing(np.zeros(100, np.int64), 0.29, ("a",), ""))[-1] == 99


# Packing.


class Killed(BaseException):
    """As when the process ends."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TFCSR_DATA", str(place))
    return place


@pytest.fixture
def folder(tmp_path):
    """Five images of `a`, nine of `b`, two of `c`: grey, 4x3 pixels, each of one shade."""
    for shade, name in enumerate(["a"] * 5 + ["b"] * 9 + ["c"] * 2):
        add(tmp_path / "data", f"{name}/{shade:02}.png", shade)
    return tmp_path / "data"


def add(folder: Path, name: str, shade: int, shape: tuple[int, ...] = (3, 4)) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(shape, shade, np.uint8)).save(path)
    return path


def shades(found: packed.Packed) -> list[int]:
    return found.x.tensor[:, 0, 0, 0].tolist()


@pytest.fixture
def decoder(monkeypatch):
    """Counts what is decoded, and can be made to fail."""

    class Decoder:
        def __init__(self):
            self.names: list[str] = []
            self.stop_after: int | None = None
            self.real = folders.decoded

        def __call__(self, path, size, channels):
            if self.stop_after is not None and len(self.names) >= self.stop_after:
                raise Killed
            self.names.append(Path(path).name)
            return self.real(path, size, channels)

    decoder = Decoder()
    monkeypatch.setattr(folders, "decoded", decoder)
    return decoder


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(packed, "CHUNK_FILES", 4)
    monkeypatch.setattr(folders, "threads", lambda: 1)


def test_a_folder_as_one_array(folder, decoder):
    steps = []
    found = pack(folder, progress=lambda done, total: steps.append((done, total)))
    assert found.x.tensor.shape == (16, 1, 3, 4)
    assert shades(found) == list(range(16))
    assert found.y.tolist() == [0] * 5 + [1] * 9 + [2] * 2
    assert found.y.dtype == np.int64
    assert found.class_names == ("a", "b", "c")
    assert found.train == 16
    assert found.mean == (pytest.approx(7.5 / 255),)
    assert found.std == (pytest.approx(np.arange(16).std() / 255),)
    assert found.skipped == ()
    assert found.path.parent == folder / PLACE
    assert steps[0] == (0, 16)
    assert steps[-1] == (16, 16)
    assert len(decoder.names) == 16
    assert sorted(path.name for path in (folder / PLACE).iterdir()) == ["any-any.images", "any-any.json"]


def test_opened_again_without_an_image(folder, decoder, monkeypatch):
    first = pack(folder, size=2, test_share=0.2)
    decoder.stop_after = 0
    monkeypatch.setattr(folders, "header", None)
    monkeypatch.setattr("hashlib.file_digest", None)  # nor is the content read
    again = pack(folder, size=(2, 2), test_share=0.2)
    assert torch.equal(first.x.tensor, again.x.tensor)
    for name in ("train", "class_names", "mean", "std", "fingerprint", "skipped", "path"):
        assert getattr(first, name) == getattr(again, name)
    assert np.array_equal(first.y, again.y)


def test_test_part(folder):
    add(folder / "test", "c/x.png", 99)
    for name in "abc":
        (folder / "train").mkdir(exist_ok=True)
        (folder / name).rename(folder / "train" / name)
    found = pack(folder, test_share=0.2)
    assert (found.train, shades(found)) == (16, [*range(16), 99])
    assert found.y.tolist()[-1] == 2
    assert found.mean == (pytest.approx(7.5 / 255),)
    alone = pack(folder / "train")
    assert shades(alone) == list(range(16))
    assert alone.path.parent == folder / "train" / PLACE


def test_a_share_of_each_class_comes_last(folder):
    found = pack(folder, test_share=0.2)
    test = [4, 9, 15]
    assert shades(found) == [s for s in range(16) if s not in test] + test
    assert found.y.tolist()[found.train :] == [0, 1, 2]
    assert found.mean == (pytest.approx(np.delete(np.arange(16), test).mean() / 255),)
    assert found.fingerprint != pack(folder).fingerprint


def test_a_class_with_one_image_cannot_be_split(folder, refused):
    add(folder, "d/x.png", 1)
    assert len(pack(folder).y) == 17
    with refused("class 'd'", folder, "has one image", "add images or a test part"):
        pack(folder, test_share=0.2)


def test_the_fingerprint_is_of_the_content(folder, tmp_path):
    first = pack(folder)
    copy = shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns(PLACE))
    assert pack(copy).fingerprint == first.fingerprint
    add(copy, "a/00.png", 77)
    assert pack(copy).fingerprint != first.fingerprint
    before = pack(copy).fingerprint
    (copy / "b/05.png").rename(copy / "a/05.png")
    assert pack(copy).fingerprint != before  # the same images, another label


def test_the_fingerprint_tells_training_from_testing(tmp_path):
    for name in ("flat/a/1.png", "cut/train/a/1.png"):
        add(tmp_path, name, 1)
    for name in ("flat/a/2.png", "cut/test/a/2.png"):
        add(tmp_path, name, 2)
    flat, cut = pack(tmp_path / "flat"), pack(tmp_path / "cut")
    assert torch.equal(flat.x.tensor, cut.x.tensor)
    assert flat.fingerprint != cut.fingerprint


@pytest.mark.parametrize("change", ["changed", "touched", "added", "removed", "renamed"])
def test_packed_anew_when_an_image_is(folder, decoder, change):
    before = pack(folder)
    number = len(decoder.names)
    path = folder / "a/00.png"
    if change == "changed":
        add(folder, "a/00.png", 50)
    elif change == "touched":
        os.utime(path, (1, 1))
    elif change == "added":
        add(folder, "a/99.png", 50)
    elif change == "removed":
        path.unlink()
    else:
        path.rename(folder / "a/xx.png")
    after = pack(folder)
    assert len(decoder.names) == number + len(after.y)
    assert (
        shades(after)
        == {
            "changed": [50, *range(1, 16)],
            "touched": [*range(16)],
            "added": [*range(5), 50, *range(5, 16)],
            "removed": [*range(1, 16)],
            "renamed": [*range(1, 5), 0, *range(5, 16)],
        }[change]
    )
    assert shades(before) == list(range(16))  # who has the old one still has it
    decoder.stop_after = 0
    pack(folder)


def test_other_files_make_no_difference(folder, decoder):
    pack(folder)
    decoder.stop_after = 0
    (folder / "a/notes.txt").write_text("x")
    (folder / "notes.txt").write_text("x")
    pack(folder)


def test_images_of_different_sizes(folder, refused):
    add(folder, "b/large.png", 1, (30, 20))
    add(folder, "c/small.png", 1, (1, 2))
    with refused(folder, "from 2x1 pixels (c/small.png) to 20x30 pixels (b/large.png)", "give --size N (size=N)"):
        pack(folder)
    assert pack(folder, size=6).x.tensor.shape == (18, 1, 6, 6)
    assert pack(folder, size=(2, 5), channels=3).x.tensor.shape == (18, 3, 2, 5)


def test_colour_anywhere_is_colour_everywhere(folder):
    add(folder, "c/colour.png", 1, (3, 4, 3))
    assert pack(folder).x.tensor.shape == (17, 3, 3, 4)
    assert pack(folder, channels=1).x.tensor.shape == (17, 1, 3, 4)


def test_impossible_settings(folder, refused):
    for wrong in ({"size": 0}, {"size": 10**6}, {"size": (1, 2, 3)}, {"channels": 2}, {"test_share": 1.0}):
        with refused("is impossible"):
            pack(folder, **wrong)


# What cannot be read.


def test_unreadable_files_are_named_or_skipped(folder, refused, decoder):
    for i in (0, 1, 2, 5, 6, 7):
        (folder / f"{'a' if i < 5 else 'b'}/{i:02}.png").write_bytes(b"")
    said = ", ".join(f"{name} (empty)" for name in ("a/00.png", "a/01.png", "a/02.png", "b/05.png", "b/06.png"))
    message = f"{folder}: 6 of 16 files cannot be read: {said} and 1 more; mend or remove them, or give"
    with refused(message, "--skip-unreadable (skip_unreadable=True)"):
        pack(folder)
    found = pack(folder, skip_unreadable=True)
    assert shades(found) == [3, 4, *range(8, 16)]
    assert found.y.tolist() == [0] * 2 + [1] * 6 + [2] * 2
    assert found.skipped[::5] == ("a/00.png", "b/07.png")
    assert found.mean == (pytest.approx(np.mean(shades(found)) / 255),)
    seen = len(decoder.names)
    with refused(message):
        pack(folder)
    # Only those that could not be read are tried again.
    assert len(decoder.names) == seen + 6
    split = pack(folder, skip_unreadable=True, test_share=0.2)
    assert (split.train, shades(split)[-3:]) == (7, [4, 9, 15])
    assert split.mean == (pytest.approx(np.mean(shades(split)[:7]) / 255),)


def test_a_class_without_a_readable_image_is_refused(folder, refused):
    for i in range(5):
        (folder / f"a/{i:02}.png").write_bytes(b"x" * i)
    for skip in (False, True):
        with refused("has no image of class 'a': ", "a/00.png (empty)", "mend them"):
            pack(folder, skip_unreadable=skip)


def test_a_class_without_a_readable_test_image_is_refused(folder, refused):
    (folder / "c/15.png").write_bytes(b"")
    with refused("has no test image of class 'c': ", "c/15.png (empty)"):
        pack(folder, skip_unreadable=True, test_share=0.2)


def test_nothing_can_be_read(folder, refused):
    for path in folder.rglob("*.png"):
        path.write_bytes(b"")
    with refused("has no image of class 'a': "):
        pack(folder, skip_unreadable=True)


def test_a_file_that_becomes_readable_is_not_left_out(folder, monkeypatch):
    """Permissions make no difference to size and time."""
    real = folders.decoded

    def forbidden(path, size, channels):
        if path.endswith("03.png"):
            raise folders.UnreadableError(path, "permission denied")
        return real(path, size, channels)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "decoded", forbidden)
        assert pack(folder, skip_unreadable=True).skipped == ("a/03.png",)
        assert pack(folder, skip_unreadable=True).reasons == ("permission denied",)
    assert shades(pack(folder)) == list(range(16))


# Stopped in the middle.


@pytest.mark.parametrize("after", range(0, 17, 3))
def test_who_is_killed_goes_on_where_it_was(folder, decoder, small_chunks, after):
    expected = pack(folder, size=2, test_share=0.3)
    shutil.rmtree(folder / PLACE)
    decoder.names.clear()
    decoder.stop_after = after
    (folder / "b/07.png").write_bytes(b"")  # what is skipped is remembered too
    with pytest.raises(Killed):
        pack(folder, size=2, test_share=0.3, skip_unreadable=True)
    assert not list((folder / PLACE).glob("*.json"))
    decoder.names.clear()
    decoder.stop_after = None
    found = pack(folder, size=2, test_share=0.3, skip_unreadable=True)
    assert len(decoder.names) == 16 - after // 4 * 4
    kept = np.array(shades(expected)) != 7
    assert shades(found) == np.array(shades(expected))[kept].tolist()
    assert found.skipped == ("b/07.png",)
    assert found.train == expected.train - 1
    fresh = shutil.copytree(folder, folder.parent / "fresh", ignore=shutil.ignore_patterns(PLACE))
    other = pack(fresh, size=2, test_share=0.3, skip_unreadable=True)
    assert (other.fingerprint, other.mean, other.std) == (found.fingerprint, found.mean, found.std)


@pytest.mark.parametrize("damage", ["part", "journal", "torn", "short", "long", "listing"])
def test_what_was_left_is_trusted_only_where_it_is_right(folder, decoder, small_chunks, damage):
    decoder.stop_after = 9
    with pytest.raises(Killed):
        pack(folder)
    part, journal = folder / PLACE / "any-any.part", folder / PLACE / "any-any.journal"
    assert part.stat().st_size == 8 * 12
    if damage == "part":
        spoil(part, 5 * 12)  # in the second chunk
    elif damage == "journal":
        spoil(journal, 5)
    elif damage == "torn":
        journal.write_bytes(journal.read_bytes()[:-10])
    elif damage == "short":
        part.write_bytes(part.read_bytes()[:-1])
    elif damage == "long":
        with part.open("ab") as file:
            file.write(b"x" * 100)
    else:
        add(folder, "a/00.png", 70)
    decoder.names.clear()
    decoder.stop_after = None
    found = pack(folder)
    assert shades(found) == [70 if damage == "listing" else 0, *range(1, 16)]
    again = {"journal": 16, "listing": 16, "long": 8}.get(damage, 12)
    assert len(decoder.names) == again
    assert found.path.stat().st_size == 16 * 12


def test_killed_time_and_again(folder, decoder, small_chunks):
    """What was torn off is cut off: what follows it counts."""
    for after in (5, 6, 7):
        decoder.stop_after = len(decoder.names) + after
        with pytest.raises(Killed):
            pack(folder)
        with (folder / PLACE / "any-any.journal").open("ab") as file:
            file.write(b'{"done": 1')
    decoder.stop_after = None
    decoder.names.clear()
    assert shades(pack(folder)) == list(range(16))
    assert len(decoder.names) == 4


def test_a_real_kill(folder, tmp_path):
    """The process ends without a word in the middle; the next goes on."""
    code = f"""
import os
from tfcsr.data import folders, packed
packed.CHUNK_FILES, folders.threads, real, seen = 4, lambda: 1, folders.decoded, []
def decoded(*given):
    seen.append(1)
    if len(seen) > 10:
        os.kill(os.getpid(), 9)
    return real(*given)
folders.decoded = decoded
packed.pack({str(folder)!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert (folder / PLACE / "any-any.part").stat().st_size == 8 * 12
    assert shades(pack(folder)) == list(range(16))


def test_a_full_disk_is_said_and_leaves_nothing_half(folder, monkeypatch, small_chunks):
    real = packed._write

    def full(file, data):
        if len(data) == 4 * 12 and file.tell() > 50:
            real(file, data[:7])
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, data)

    monkeypatch.setattr(packed, "_write", full)
    with pytest.raises(OutputError, match=r"cannot write .*any-any.part: No space left on device; make room there"):
        pack(folder)
    assert sorted(path.suffix for path in (folder / PLACE).iterdir()) == [".journal", ".part"]
    monkeypatch.setattr(packed, "_write", real)
    assert shades(pack(folder)) == list(range(16))


def test_too_little_room_is_said_at_once(folder, monkeypatch, decoder):
    decoder.stop_after = 0
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1000, 999, 100))
    with pytest.raises(OutputError, match="GB are free; make room there, or give a smaller size"):
        pack(folder)


# Where it is kept.


@pytest.fixture
def read_only(folder, monkeypatch):
    """To root nothing is read-only: the folder has to be made so by hand."""
    mkdir, opened = Path.mkdir, Path.open

    def refuse(path):
        if path.is_relative_to(folder):
            raise OSError(errno.EROFS, "Read-only file system")

    def no_mkdir(self, *given, **more):
        refuse(self)
        return mkdir(self, *given, **more)

    def no_open(self, mode="r", *given, **more):
        if set(mode) & set("wa+"):
            refuse(self)
        return opened(self, mode, *given, **more)

    monkeypatch.setattr(Path, "mkdir", no_mkdir)
    monkeypatch.setattr(Path, "open", no_open)


def test_a_folder_that_cannot_be_written_to(folder, read_only, own_cache, decoder, tmp_path):
    found = pack(folder)
    assert shades(found) == list(range(16))
    assert found.path.is_relative_to(own_cache / "packed")
    assert not (folder / PLACE).exists()
    decoder.stop_after = 0
    assert pack(folder).path == found.path
    decoder.stop_after = None
    elsewhere = tmp_path / "elsewhere"
    assert pack(folder, size=1, data_dir=str(elsewhere)).path.is_relative_to(elsewhere)


def test_what_lies_in_a_folder_that_cannot_be_written_to_is_used(folder, request, decoder):
    found = pack(folder)
    request.getfixturevalue("read_only")
    decoder.stop_after = 0
    assert pack(folder).path == found.path
    os.utime(found.path, (1, 1))  # the manifest cannot be brought up to date, which does no harm
    assert pack(folder).path == found.path


def test_nowhere_to_write(folder, read_only, monkeypatch):
    monkeypatch.setattr(packed.sources, "roots", lambda data_dir: [folder / "there"])
    with pytest.raises(OutputError, match="Read-only file system"):
        pack(folder)


# Damage.


def test_a_spoilt_file_is_packed_anew(folder, decoder):
    path = pack(folder).path
    stamp = path.stat()
    spoil(path, 20)
    assert shades(pack(folder)) == list(range(16))
    assert len(decoder.names) == 32
    # A file that was copied or restored is recognised by its content, and that is asked for once.
    os.utime(path, ns=(stamp.st_atime_ns, 5))
    pack(folder)
    assert len(decoder.names) == 32
    assert json.loads(path.with_suffix(".json").read_bytes())["file"][1] == 5
    for left in (b"", b"x", path.read_bytes() + b"x"):
        path.write_bytes(left)
        assert shades(pack(folder)) == list(range(16))
    path.unlink()
    assert shades(pack(folder)) == list(range(16))


def resealed(manifest: Path, **changes: object) -> None:
    """With a check that is right: as somebody would who means harm."""
    kept = json.loads(manifest.read_bytes()) | changes
    kept.pop("check")
    manifest.write_text(json.dumps(kept | {"check": packed._check(kept)}))


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def packed_once(tmp_path_factory):
    """A folder of three images, with its manifest as it should be."""
    folder = tmp_path_factory.mktemp("hostile")
    add(folder, "a/1.png", 1)
    add(folder, "b/2.png", 2)
    add(folder, "b/3.png", 3)
    found = pack(folder)
    return folder, found, found.path.with_suffix(".json").read_bytes()


FIELDS = ["listing", "shape", "skipped", "mean", "std", "sha256", "file"]


@settings(max_examples=60)
@given(st.sampled_from(FIELDS), HOSTILE)
def test_a_hostile_manifest_does_no_harm(packed_once, field, value):
    folder, expected, sound = packed_once
    manifest = expected.path.with_suffix(".json")
    manifest.write_bytes(sound)
    resealed(manifest, **{field: value})
    found = pack(folder, skip_unreadable=True)
    assert torch.equal(found.x.tensor, expected.x.tensor)
    assert found.y.tolist() == [0, 1, 1]
    assert len(found.mean) == len(found.std) == 1
    assert found.std[0] > 0


@settings(max_examples=30)
@given(HOSTILE | st.binary(max_size=30))
def test_any_manifest_does_no_harm(packed_once, value):
    folder, expected, _ = packed_once
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    expected.path.with_suffix(".json").write_bytes(raw)
    assert pack(folder).fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [1, 1, 12]},
        {"shape": [1, 1, 1]},
        {"shape": [3, 2, 2]},
        {"shape": [3, 2, 2], "mean": [0.1] * 3, "std": [0.1] * 3},
        {"shape": [1, 10**9, 10**9]},
        {"shape": [1, 3, 4.0]},
        {"skipped": [[0, "x"], [0, "x"]], "shape": [1, 6, 6]},
        {"skipped": [[0, "x"], [5, "x"]]},
        {"mean": [float("nan")]},
        {"std": [0.0]},
        {"std": []},
        {"sha256": "x", "file": [0, 0, 0]},
    ],
)
def test_certain_hostile_manifests(packed_once, changes):
    folder, _, _ = packed_once
    for asked in ({}, {"channels": 1}, {"size": (3, 4), "channels": 1}):
        manifest = pack(folder, **asked).path.with_suffix(".json")
        resealed(manifest, **changes)
        found = pack(folder, skip_unreadable=True, **asked)
        assert found.x.tensor.numel() == 36
        assert len(found.y) == len(found.x.tensor) == 3
        assert found.std[0] > 0
        assert found.x.tensor.shape[1] == asked.get("channels", found.x.tensor.shape[1])
    assert found.x.tensor.shape == (3, 1, 3, 4)


def test_a_digit_that_changed_is_noticed(packed_once):
    folder, expected, sound = packed_once
    manifest = expected.path.with_suffix(".json")
    manifest.write_bytes(sound.replace(b'"mean": [\n  0.', b'"mean": [\n  0.9'))
    assert manifest.read_bytes() != sound
    assert pack(folder).mean == expected.mean


@settings(max_examples=30)
@given(st.binary(max_size=60) | HOSTILE.map(lambda value: json.dumps(value).encode()))
def test_any_journal_does_no_harm(packed_once, raw):
    folder, expected, _ = packed_once
    shutil.rmtree(folder / PLACE)
    (folder / PLACE).mkdir()
    work = packed._Work(folder, None, None, 0.0)
    (folder / PLACE / "any-any.journal").write_bytes(work._head.encode() + raw)
    (folder / PLACE / "any-any.part").write_bytes(b"\0" * 12)
    assert pack(folder).fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    "said",
    [
        {"done": 4, "skipped": [], "sha256": ""},
        {"done": 10**30, "skipped": [], "sha256": ""},
        {"done": 0, "skipped": [], "sha256": ""},
        {"done": 1, "skipped": [[0, "x"], [0, "x"]], "sha256": ""},
        {"done": 2, "skipped": [[1, "x"], [0, "x"]], "sha256": ""},
        {"done": 1, "skipped": [[1, "x"]], "sha256": ""},
        {"done": 1, "skipped": [[-1, "x"]], "sha256": ""},
        {"done": True, "skipped": [], "sha256": ""},
    ],
)
def test_certain_hostile_journals(packed_once, said):
    import hashlib

    rows = max(0, min(2, said["done"]) - len(said["skipped"]))
    test_any_journal_does_no_harm.hypothesis.inner_test(
        packed_once, json.dumps(said | {"sha256": hashlib.sha256(b"\0" * 12 * rows).hexdigest()}).encode() + b"\n"
    )


def test_a_journal_that_takes_back_what_it_said(packed_once):
    import hashlib

    folder, expected, _ = packed_once
    shutil.rmtree(folder / PLACE)
    (folder / PLACE).mkdir()
    rows = expected.x.tensor.numpy()
    lines = [{"done": 2, "skipped": []}, {"done": 3, "skipped": [[1, "x"]]}]
    sums = [hashlib.sha256(rows[:2].tobytes()).hexdigest(), hashlib.sha256(b"").hexdigest()]
    said = "".join(json.dumps(line | {"sha256": sha}) + "\n" for line, sha in zip(lines, sums, strict=True))
    (folder / PLACE / "any-any.journal").write_text(packed._Work(folder, None, None, 0.0)._head + said)
    (folder / PLACE / "any-any.part").write_bytes(rows[:2].tobytes())
    assert pack(folder).fingerprint == expected.fingerprint


# Two at once.


def test_the_second_waits_for_the_first(folder, decoder, monkeypatch):
    monkeypatch.setattr(packed, "WAIT_S", 0.001)
    (folder / PLACE).mkdir()
    found: list[packed.Packed] = []
    threads = [threading.Thread(target=lambda: found.append(pack(folder))) for _ in range(4)]
    with locked(folder / PLACE):
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        assert not found
    for thread in threads:
        thread.join()
    assert len({entry.fingerprint for entry in found}) == 1
    assert len(found) == 4
    assert len(decoder.names) == 16


def test_an_error_of_the_progress_is_not_the_disks(folder):
    def broken(done, total):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        pack(folder, progress=broken)
    with pytest.raises(DataError):
        pack(folder / "nope")
