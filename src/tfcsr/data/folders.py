"""Folders of images: a directory per class, or `train/` and `test/` above such directories. Listed and decoded."""

import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tfcsr.errors import DataError
from tfcsr.garbage import uncollected

if TYPE_CHECKING:  # a spec asks for the classes and for nothing heavy
    from PIL import Image
    from PIL.ImageFile import ImageFile

    from tfcsr.data.dataset import Images

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
# Of Pillow's many formats these alone: some of the others start programs.
FORMATS = ("PNG", "JPEG", "WEBP")
# How a folder is called that has a part which is neither for training nor for testing.
OTHER_PARTS = {"val", "valid", "validation"}
GREY_MODES = ("1", "L", "LA", "La")
ORIENTATION = 0x0112  # the EXIF tag
GAP = 3.0  # how much larger than asked for an image is before it is shrunk with care: more cannot be seen
LONGEST_REASON = 80


class UnreadableError(DataError):
    """An image file that cannot be decoded; `reason` says why in a few words."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{path} cannot be read ({reason}): mend or remove it")
        self.reason = reason


class File(NamedTuple):
    """An image file as a listing knows it; `path` is relative to the folder."""

    path: str
    label: int
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Listing:
    """The images of a folder, by class and path; `ignored` counts the files that are none."""

    folder: Path
    class_names: tuple[str, ...]
    train: list[File]
    test: list[File]
    ignored: int


def splits(folder: Path) -> dict[str, Path]:
    """Where the directories of the classes are: under `train`, and under `test` where there is such a part."""
    names, _ = _look(folder)
    if names in (["train"], ["test", "train"]):
        return {name: folder / name for name in reversed(names)}
    other = OTHER_PARTS.intersection(names)
    if other and "train" in names and {*names} <= {"train", "test"} | OTHER_PARTS:
        raise DataError(f"{folder} has {min(other)}/ beside train/: only train/ and test/ are known; move it away")
    return {"train": folder}


def classes_of(folder: Path) -> tuple[str, ...]:
    """The names of the classes, sorted, without looking into their directories."""
    top = splits(folder)["train"]
    names, image = _look(top)
    if not names and image is not None:
        raise DataError(f"{image} lies directly in {top}: put each class's images into a directory of its own")
    if not names:
        raise DataError(f"{top} has no class directory: put each class's images into a directory of its own")
    return tuple(names)


def list_images(folder: Path) -> Listing:
    """Every image by class and path, so that the file system's own order makes no difference."""
    parts, class_names = splits(folder), classes_of(folder)
    labels = {name: label for label, name in enumerate(class_names)}
    found: dict[str, list[File]] = {"train": [], "test": []}
    ignored = 0
    for part, top in parts.items():
        names, _ = _look(top)
        prefix = "" if top == folder else f"{part}/"
        for name in names:
            if name not in labels:
                raise DataError(f"{top / name} is a class that {parts['train']} lacks: add it there, or remove it")
        with uncollected():
            walked = [_walk(os.fspath(folder), f"{prefix}{name}", labels[name]) for name in names]
        for name, (files, others) in zip(names, walked, strict=True):
            if not files:
                raise DataError(f"{top / name} has no image: put PNG, JPEG or WebP files into it, or remove it")
            found[part] += files
            ignored += others
    return Listing(folder, class_names, found["train"], found["test"], ignored)


def images_in(folder: Path) -> list[Path]:
    """Every image in a folder and below it, whatever its class."""
    files, _ = _walk(os.fspath(folder), ".", 0)
    if not files:
        raise DataError(f"{folder} has no image: give one with PNG, JPEG or WebP files in it")
    return [folder / file.path for file in files]


def _look(folder: Path) -> tuple[list[str], str | None]:
    """The visible directories in a folder, and the first of the images directly in it."""
    names, images = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if _is_directory(entry):
                    names.append(entry.name)
                elif entry.name.lower().endswith(SUFFIXES):
                    images.append(entry.name)
    except FileNotFoundError:
        raise DataError(f"there is no folder {folder}: give one that has a directory of images per class") from None
    except NotADirectoryError:
        raise DataError(f"{folder} is not a folder: give one that has a directory of images per class") from None
    except ValueError:  # a zero byte
        raise DataError(f"{folder} cannot be the path of a folder: give one that is there") from None
    except OSError as error:
        raise _closed(folder, error) from None
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(f"the name of the directory {folder / name} is not UTF-8: rename it") from None
    return sorted(names), min(images, default=None)


def _walk(folder: str, top: str, label: int) -> tuple[list[File], int]:
    """The images in a directory and those below it, and how many files are none. Called for every file there is, so it
    makes no more objects than it must.
    """
    found: list[File] = []
    ignored = 0
    seen: set[tuple[int, int]] = set()  # a link may lead back up
    todo = [top]
    while todo:
        place = todo.pop()
        path = f"{folder}/{place}"
        below = []
        try:
            itself = os.stat(path)  # noqa: PTH116
            if (itself.st_dev, itself.st_ino) in seen:
                continue
            seen.add((itself.st_dev, itself.st_ino))
            with os.scandir(path) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] == ".":
                        continue
                    if not name.lower().endswith(SUFFIXES):
                        if _is_directory(entry):
                            below.append(f"{place}/{name}")
                        else:
                            ignored += 1
                        continue
                    try:
                        known = entry.stat()
                    except OSError:  # a link to nowhere: named when it comes to reading it
                        found.append(File(f"{place}/{name}", label, -1, -1))
                        continue
                    if stat.S_ISREG(known.st_mode):
                        found.append(File(f"{place}/{name}", label, known.st_size, known.st_mtime_ns))
                    elif stat.S_ISDIR(known.st_mode):
                        below.append(f"{place}/{name}")
                    else:  # a pipe, say
                        ignored += 1
        except OSError as error:
            raise _closed(path, error) from None
        todo += sorted(below, reverse=True)
    return sorted(found), ignored


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _closed(path: str | Path, error: OSError) -> DataError:
    return DataError(f"{path}: cannot be read ({error.strerror or error}); make it readable or move it")


def read_image(path: str | Path, size: tuple[int, int] | None, channels: int) -> "Images":
    """An image as uint8 [C, H, W], upright, grey or RGB, what is transparent on white. With a size, (height, width), it
    is scaled to cover that and cropped around its centre.
    """
    with quiet():
        return decoded(path, size, channels)


def read_images(paths: Sequence[str | Path], size: tuple[int, int] | None, channels: int) -> "Images":
    """The same of several, [N, C, H, W]. What cannot be read is named together."""
    import numpy as np

    if not paths:
        raise DataError("no image is given: give at least one")

    def one(path: str | Path) -> "Images | tuple[str, str]":
        try:
            return decoded(path, size, channels)
        except UnreadableError as error:
            return str(path), error.reason

    with quiet(), ThreadPoolExecutor(threads()) as pool:
        found = list(pool.map(one, paths))
    if failed := [entry for entry in found if isinstance(entry, tuple)]:
        raise DataError(f"{name_unreadable(failed, len(paths), 3)}; mend or remove them")
    images = [entry for entry in found if not isinstance(entry, tuple)]
    for path, image in zip(paths, images, strict=True):
        if image.shape != images[0].shape:
            raise DataError(
                f"{path} is {pixels(image.shape[1:])} and {paths[0]} is {pixels(images[0].shape[1:])}: give a size"
            )
    return np.stack(images)


def name_unreadable(failed: Sequence[tuple[str, str]], total: int, first: int) -> str:
    """How many files cannot be read, and the first of them with the reasons."""
    named = ", ".join(f"{path} ({reason})" for path, reason in failed[:first])
    more = f" and {len(failed) - first} more" if len(failed) > first else ""
    return f"{len(failed)} of {total} files cannot be read: {named}{more}"


def pixels(size: Sequence[int]) -> str:
    height, width = size
    return f"{width}x{height} pixels"


def threads() -> int:
    """Pillow decodes without Python's lock, but not all is decoding: more than a few threads wait for each other."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(4, cores)


@contextmanager
def quiet() -> Iterator[None]:
    """Without Pillow's warnings. They are switched off for the process, so this goes around threads, not into them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def header(path: str | Path) -> tuple[tuple[int, int], bool]:
    """Height and width of an image that stands upright, and whether it is grey, without decoding it."""
    with _opened(path) as image:
        width, height = image.size
        # A PNG may have its EXIF data behind the pixels: to ask for it there would decode them.
        known = image.format != "PNG" or "exif" in image.info
        turned = known and _orientation(image) >= 5
        return (width, height) if turned else (height, width), _is_grey(image)


def decoded(path: str | Path, size: tuple[int, int] | None, channels: int) -> "Images":
    """`read_image` for threads: within `quiet`."""
    import numpy as np

    with _opened(path) as image:
        if size is not None:
            # A JPEG can be decoded at a half, a quarter or an eighth of its size, which takes less time.
            least = int(GAP * max(size))
            image.draft(None, (least, least))
        image.load()
        upright = _upright(_flat(image, channels), _orientation(image))
        array = np.array(upright if size is None else _covering(upright, size))
    return array[np.newaxis] if channels == 1 else np.ascontiguousarray(array.transpose(2, 0, 1))


@contextmanager
def _opened(path: str | Path) -> "Iterator[ImageFile]":
    """Turns whatever Pillow says about a file into our error: on a damaged one it may raise nearly anything."""
    from PIL import Image, UnidentifiedImageError

    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(path, "not a regular file")
        if status.st_size == 0:
            raise UnreadableError(path, "empty")
        with Image.open(path, formats=FORMATS) as image:
            limit = Image.MAX_IMAGE_PIXELS
            if limit is not None and image.width * image.height > limit:
                raise UnreadableError(path, f"{pixels((image.height, image.width))}, too many")
            yield image
    except (UnreadableError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise UnreadableError(path, "not a PNG, JPEG or WebP image") from None
    except Image.DecompressionBombError:
        raise UnreadableError(path, "too many pixels") from None
    except Exception as error:
        raise UnreadableError(path, _reason(error)) from None


def _reason(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "truncated" in text.lower():
        return "truncated"
    return f"damaged: {text[:LONGEST_REASON]}" if text else "damaged"


def _is_grey(image: "Image.Image") -> bool:
    return image.mode in GREY_MODES or image.mode.startswith("I")


def _flat(image: "Image.Image", channels: int) -> "Image.Image":
    """In grey or RGB, eight bits, nothing transparent."""
    import numpy as np
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, in one of several orders of the bytes
        deep = np.asarray(image).astype(np.int64).clip(0, 65535)
        image = Image.fromarray(((deep * 255 + 32767) // 65535).astype(np.uint8))
    elif image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("L" if channels == 1 else "RGB")


def _orientation(image: "ImageFile") -> int:
    try:
        found = image.getexif().get(ORIENTATION, 1)
    except Exception:  # what is damaged is the EXIF data, not the image
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def _upright(image: "Image.Image", orientation: int) -> "Image.Image":
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(turns[orientation]) if orientation in turns else image


def _covering(image: "Image.Image", size: tuple[int, int]) -> "Image.Image":
    """The largest part around the centre that has the size's proportions, scaled to it. In one go: to scale the whole
    image first would take any amount of memory for a long and narrow one.
    """
    from PIL import Image

    height, width = size
    if (image.width, image.height) == (width, height):
        return image
    scale = min(image.width / width, image.height / height)
    across, down = min(width * scale, image.width), min(height * scale, image.height)
    left, top = (image.width - across) / 2, (image.height - down) / 2
    box = (left, top, min(left + across, image.width), min(top + down, image.height))
    return image.resize((width, height), Image.Resampling.BILINEAR, box=box, reducing_gap=GAP)
