import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tfcsr.data import folders
from tfcsr.data.folders import classes_of, images_in, list_images, read_image, read_images, splits
from tfcsr.errors import DataError


def draw(path: Path, pixels: np.ndarray | None = None, **saved: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.arange(24 * 16 * 3, dtype=np.uint8).reshape(24, 16, 3) if pixels is None else pixels
    Image.fromarray(array).save(path, **saved)
    return path


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


# Listing.


def test_classes_are_the_directories_in_order_of_name(tmp_path):
    touch(tmp_path / "b/1.png", tmp_path / "B/1.png", tmp_path / "a/1.png", tmp_path / ".hidden/1.png")
    assert classes_of(tmp_path) == ("B", "a", "b")
    assert splits(tmp_path) == {"train": tmp_path}


def test_train_and_test_stand_above_the_classes(tmp_path):
    touch(tmp_path / "train/a/1.png", tmp_path / "train/b/1.png", tmp_path / "test/b/7.png", tmp_path / "notes.txt")
    assert splits(tmp_path) == {"train": tmp_path / "train", "test": tmp_path / "test"}
    found = list_images(tmp_path)
    assert found.class_names == classes_of(tmp_path) == ("a", "b")
    assert [(file.path, file.label) for file in found.train] == [("train/a/1.png", 0), ("train/b/1.png", 1)]
    assert [(file.path, file.label) for file in found.test] == [("test/b/7.png", 1)]


def test_train_alone_stands_above_the_classes_too(tmp_path):
    touch(tmp_path / "train/a/1.png")
    assert splits(tmp_path) == {"train": tmp_path / "train"}
    assert classes_of(tmp_path) == ("a",)


def test_beside_another_directory_train_is_a_class(tmp_path):
    touch(tmp_path / "train/1.png", tmp_path / "tram/1.png")
    assert classes_of(tmp_path) == ("train", "tram")


def test_images_are_found_below_by_suffix_and_sorted_by_path(tmp_path):
    names = ["z.PNG", "a/b/c.JPeG", "a.jpg", "m.webp", "a-b.png"]
    touch(*(tmp_path / "cat" / name for name in names))
    touch(tmp_path / "cat/notes.txt", tmp_path / "cat/a/x.gif", tmp_path / "cat/.x.png", tmp_path / "cat/.h/x.png")
    found = list_images(tmp_path)
    assert [file.path for file in found.train] == sorted(f"cat/{name}" for name in names)
    assert found.ignored == 2
    assert found.train[0].size == 1
    assert found.train[0].mtime_ns == (tmp_path / found.train[0].path).stat().st_mtime_ns
    assert images_in(tmp_path) == [tmp_path / file.path for file in found.train]


def test_the_order_of_the_file_system_makes_no_difference(tmp_path, monkeypatch):
    touch(*(tmp_path / f"{name}/{number}.png" for name in "ab" for number in range(5)))
    touch(tmp_path / "elsewhere/far.png")
    for name in ("one", "other"):  # which counts once
        (tmp_path / "a" / name).symlink_to(tmp_path / "elsewhere")
    expected = list_images(tmp_path)
    scandir = os.scandir

    class Backwards:
        def __init__(self, path):
            self.entries = scandir(path)

        def __enter__(self):
            return reversed(list(self.entries))

        def __exit__(self, *_):
            self.entries.close()

    monkeypatch.setattr(os, "scandir", Backwards)
    assert list_images(tmp_path) == expected


def test_links_may_leave_and_may_not_loop(tmp_path):
    folder = tmp_path / "data"
    touch(tmp_path / "elsewhere/far.png", folder / "a/near.png", folder / "a/deep/more.png")
    (folder / "a/out").symlink_to(tmp_path / "elsewhere")
    (folder / "a/one.png").symlink_to(tmp_path / "elsewhere/far.png")
    (folder / "a/deep/up").symlink_to(folder / "a")
    (folder / "a/self").symlink_to(folder / "a/self")
    (folder / "a/nowhere.png").symlink_to(tmp_path / "nothing.png")
    for i in range(12):  # each leads to all: as many paths as there are orders
        (folder / f"a/knot{i}").mkdir()
        for j in range(12):
            (folder / f"a/knot{i}/to{j}").symlink_to(folder / f"a/knot{j}")
    found = [file.path for file in list_images(folder).train]
    assert found == ["a/deep/more.png", "a/near.png", "a/nowhere.png", "a/one.png", "a/out/far.png"]


def test_a_pipe_is_not_opened(tmp_path):
    touch(tmp_path / "a/1.png")
    os.mkfifo(tmp_path / "a/2.png")
    found = list_images(tmp_path)
    assert len(found.train) == found.ignored == 1
    with pytest.raises(DataError, match=r"2\.png cannot be read \(not a regular file\)"):
        read_image(tmp_path / "a/2.png", None, 1)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["x.png", "a.txt"], "x.png lies directly in {}: put each class's images into a directory of its own"),
        (["train/x.png", "test/a/x.png"], "x.png lies directly in {}/train"),
        (["a.txt", ".a/x.png"], "{} has no class directory"),
        (["a/x.png", "b/x.txt"], "{}/b has no image"),
        (["train/a/x.png", "test/a/x.txt"], "{}/test/a has no image"),
        (["train/a/x.png", "test/b/x.png"], "{}/test/b is a class that {}/train lacks"),
        (["train/a/x.png", "val/a/x.png"], "{} has val/ beside train/"),
        (["train/a/x.png", "test/a/x.png", "valid/a/x.png"], "{} has valid/ beside train/"),
    ],
)
def test_a_folder_that_is_none_of_these_is_refused(tmp_path, refused, files, said):
    touch(*(tmp_path / file for file in files))
    with refused(said.replace("{}", str(tmp_path))):
        list_images(tmp_path)


def test_no_folder_is_refused(tmp_path, refused):
    touch(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with refused("there is no folder", tmp_path / "nope"):
        classes_of(tmp_path / "nope")
    with refused(tmp_path / "file", "is not a folder"):
        classes_of(tmp_path / "file")
    with refused("cannot be the path"):
        classes_of(Path("a\0b"))
    with refused("has no image"):
        images_in(tmp_path / "empty")


def test_a_name_that_is_no_text_is_refused(tmp_path, refused):
    try:
        (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    with refused("is not UTF-8"):
        classes_of(tmp_path)


def test_classes_are_found_without_numpy_and_pillow(tmp_path):
    touch(tmp_path / "a/1.png")
    code = f"""
import sys
from pathlib import Path
from tfcsr.data.folders import classes_of
assert classes_of(Path({str(tmp_path)!r})) == ("a",)
assert not {{"numpy", "PIL", "torch"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# Decoding.


def test_grey_and_colour(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 3), np.uint8)
    colour, grey = draw(tmp_path / "c.png", pixels), draw(tmp_path / "g.png", pixels[:, :, 0])
    assert np.array_equal(read_image(colour, None, 3), pixels.transpose(2, 0, 1))
    assert np.array_equal(read_image(grey, None, 1), pixels[None, :, :, 0])
    assert np.array_equal(read_image(grey, None, 3), np.repeat(pixels[None, :, :, 0], 3, axis=0))
    assert np.array_equal(read_image(colour, None, 1)[0], np.array(Image.open(colour).convert("L")))
    assert folders.header(colour) == ((6, 4), False)
    assert folders.header(grey) == ((6, 4), True)


@pytest.mark.parametrize("suffix", ["png", "jpg", "jpeg", "webp"])
def test_formats(tmp_path, suffix):
    path = draw(tmp_path / f"x.{suffix}", np.full((5, 7, 3), (200, 100, 50), np.uint8))
    image = read_image(path, None, 3)
    assert image.shape == (3, 5, 7)
    assert image.dtype == np.uint8
    assert np.abs(image.astype(int) - np.array([200, 100, 50]).reshape(3, 1, 1)).max() < 8


def test_sixteen_bits_become_eight(tmp_path):
    path = draw(tmp_path / "x.png", np.array([[0, 128, 129, 257, 32768, 65535]], np.uint16))
    assert read_image(path, None, 1).tolist() == [[[0, 0, 1, 1, 128, 255]]]
    assert read_image(path, None, 3)[:, 0, -1].tolist() == [255] * 3
    assert folders.header(path) == ((1, 6), True)


def test_what_is_transparent_lies_on_white(tmp_path):
    colour = np.array([[[9, 9, 9, 0], [9, 8, 7, 255], [0, 0, 0, 128]]], np.uint8)
    path = draw(tmp_path / "rgba.png", colour)
    assert read_image(path, None, 3)[:, 0].T.tolist() == [[255] * 3, [9, 8, 7], [127] * 3]
    path = draw(tmp_path / "la.png", np.array([[[9, 0], [9, 255]]], np.uint8))
    assert read_image(path, None, 1).tolist() == [[[255, 9]]]
    assert folders.header(path) == ((1, 2), True)


def test_palettes(tmp_path):
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8)).convert("P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    image.save(tmp_path / "p.png")
    assert read_image(tmp_path / "p.png", None, 3)[:, 0].T.tolist() == [[10, 20, 30], [40, 50, 60], [70, 80, 90]]
    image.save(tmp_path / "t.png", transparency=b"\x00\xff\xff")
    assert read_image(tmp_path / "t.png", None, 3)[:, 0].T.tolist() == [[255] * 3, [40, 50, 60], [70, 80, 90]]
    Image.fromarray(np.array([[True, False]])).save(tmp_path / "1.png")
    assert read_image(tmp_path / "1.png", None, 1).tolist() == [[[255, 0]]]


def test_cmyk(tmp_path):
    Image.new("CMYK", (8, 8), (0, 0, 0, 0)).save(tmp_path / "x.jpg")
    assert read_image(tmp_path / "x.jpg", None, 3).min() > 250


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_images_stand_upright(tmp_path, orientation, suffix):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[folders.ORIENTATION] = orientation
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    path = draw(tmp_path / f"x.{suffix}", pixels, exif=exif, **({"lossless": True} if suffix == "webp" else {}))
    with Image.open(path) as image:
        expected = np.array(ImageOps.exif_transpose(image)).transpose(2, 0, 1)
    found = read_image(path, None, 3)
    assert np.array_equal(found, expected)
    assert folders.header(path)[0] == found.shape[1:]
    assert read_image(path, (3, 5), 3).shape == (3, 3, 5)


def test_a_photograph_is_turned_before_it_is_cropped(tmp_path):
    exif = Image.Exif()
    exif[folders.ORIENTATION] = 6
    pixels = np.zeros((40, 80), np.uint8)
    pixels[:, 40:] = 255  # turned by 90 degrees, the lower half is white
    path = draw(tmp_path / "x.jpg", pixels, exif=exif)
    found = read_image(path, (8, 4), 1)[0]
    assert found[:3].max() < 30
    assert found[5:].min() > 225


def test_scaled_to_cover_and_cropped_around_the_centre(tmp_path):
    pixels = np.zeros((20, 60, 3), np.uint8)
    pixels[:, 20:40] = 255
    path = draw(tmp_path / "x.png", pixels)
    assert read_image(path, (10, 10), 3).min() > 200
    assert read_image(path, (10, 30), 1)[0, 5].tolist()[::29] == [0, 0]
    assert np.array_equal(read_image(path, (20, 60), 3), pixels.transpose(2, 0, 1))
    assert read_image(path, (50, 100), 3).shape == (3, 50, 100)  # smaller ones are scaled up


@given(st.tuples(*[st.integers(1, 300)] * 2), st.tuples(*[st.integers(1, 40)] * 2), st.sampled_from(["png", "jpg"]))
def test_any_size_becomes_any_other(tmp_path_factory, there, wanted, suffix):
    path = draw(tmp_path_factory.mktemp("any") / f"x.{suffix}", np.full(there, 99, np.uint8))
    found = read_image(path, wanted, 1)
    assert found.shape == (1, *wanted)
    assert np.abs(found.astype(int) - 99).max() <= 2
    path.unlink()


def test_a_narrow_image_takes_no_room(tmp_path):
    """Scaled as a whole to 64 pixels across it would have 400 million."""
    path = draw(tmp_path / "x.png", np.full((100_000, 1), 7, np.uint8))
    assert np.unique(read_image(path, (64, 64), 1)).tolist() == [7]


def zeros_png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def unreadable(folder: Path) -> dict[Path, str]:
    """Files of every kind that cannot be read, and what is said of them."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    found = {}
    for name in ("cut.png", "cut.jpg"):
        draw(folder / name, noise)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])
        found[folder / name] = "truncated"
    for name, data, said in (
        ("empty.png", b"", "empty"),
        ("text.png", b"I am no image", "not a PNG, JPEG or WebP image"),
        ("zero.jpg", b"\0" * 100, "not a PNG, JPEG or WebP image"),
        ("bmp.png", draw(folder / "x.bmp", noise).read_bytes(), "not a PNG, JPEG or WebP image"),
        ("bomb.png", zeros_png(10_000, 10_000), "too many"),  # Pillow only warns
        ("bombs.png", zeros_png(100_000, 100_000), "too many"),
    ):
        (folder / name).write_bytes(data)
        found[folder / name] = said
    (folder / "directory.png").mkdir()
    return found | {folder / "directory.png": "not a regular file", folder / "none.png": "no such file"}


def test_what_cannot_be_read_is_named_with_the_reason(tmp_path, refused):
    for path, said in unreadable(tmp_path).items():
        for size in (None, (8, 8)):
            with refused(path, "cannot be read", said):
                read_image(path, size, 3)


def test_a_file_that_may_not_be_read(tmp_path, refused, monkeypatch):
    def forbidden(*_, **__):
        raise PermissionError(13, "Permission denied")

    path = draw(tmp_path / "x.png")
    monkeypatch.setattr(Image, "open", forbidden)
    with refused(path, "permission denied"):
        read_image(path, None, 3)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp"])
def test_damage_is_refused_or_harmless(tmp_path_factory, suffix, mutations, sound_or_refused):
    folder = tmp_path_factory.mktemp("damaged")
    exif = Image.Exif()
    exif[folders.ORIENTATION] = 6
    whole = draw(folder / f"whole.{suffix}", exif=exif).read_bytes()
    path = folder / f"x.{suffix}"

    @given(mutations(whole, 60))
    def check(data):
        path.write_bytes(data)
        with sound_or_refused(path):
            assert read_image(path, (8, 8), 3).shape == (3, 8, 8)
        with sound_or_refused(path):
            folders.header(path)

    check()


def test_several_at_once(tmp_path, refused):
    paths = [draw(tmp_path / f"{i}.png", np.full((4, 4), i, np.uint8)) for i in range(30)]
    assert read_images(paths, None, 1)[:, 0, 0, 0].tolist() == list(range(30))
    assert read_images(paths, (2, 3), 3).shape == (30, 3, 2, 3)
    draw(paths[3], np.zeros((5, 4), np.uint8))
    with refused(f"{paths[3]} is 4x5 pixels and {paths[0]} is 4x4 pixels"):
        read_images(paths, None, 1)
    for i in (2, 5, 7, 11, 13):
        paths[i].write_bytes(b"")
    names = ", ".join(f"{paths[i]} (empty)" for i in (2, 5, 7))
    with refused(f"5 of 30 files cannot be read: {names} and 2 more"):
        read_images(paths, (4, 4), 1)
    with refused("no image is given"):
        read_images([], None, 1)
