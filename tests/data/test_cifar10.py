"""What is CIFAR-10's own: a label, five files of train. The archive's reader is held by the tests of CIFAR-100."""

import gzip
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfcsr.data import cifar10

FOLDER = "cifar-10-batches-bin"
TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]
NAMES = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"


def records(labels: list[int], first: int) -> bytes:
    data = np.zeros((len(labels), 3073), np.uint8)
    data[:, 0] = labels
    for channel in range(3):
        data[:, 1 + 1024 * channel : 1 + 1024 * (channel + 1)] = channel + 1
    data[:, 1] = np.arange(first, first + len(labels))
    return data.tobytes()


def members() -> dict[str, bytes]:
    """Two images of each class in train, no class in every file; one in test."""
    labels = [label for label in range(10) for _ in range(2)]
    train = {name: records(labels[4 * i : 4 * i + 4], 4 * i) for i, name in enumerate(TRAIN)}
    content = train | {"test_batch.bin": records(list(range(10)), 100), "batches.meta.txt": NAMES}
    return {f"{FOLDER}/{name}": data for name, data in content.items()}


def tar(content: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


OFFICIAL = cifar10.LAYOUT


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    train, test = (replace(split, per_class=count) for split, count in ((OFFICIAL.train, 2), (OFFICIAL.test, 1)))
    monkeypatch.setattr(cifar10, "LAYOUT", replace(OFFICIAL, train=train, test=test))


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, data in members().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path / FOLDER


@pytest.fixture
def archive(tmp_path) -> Path:
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(gzip.compress(tar(members()), 1))
    return path


def test_the_official_sizes():
    sizes = OFFICIAL.sizes()
    assert {sizes.pop(name) for name in (*TRAIN, "test_batch.bin")} == {30_730_000}
    assert list(sizes) == ["batches.meta.txt"]


def test_load_from_the_folder(folder, tmp_path):
    data = cifar10.load(str(tmp_path))
    assert data.name == "cifar10"
    assert data.train_x.shape == (20, 3, 32, 32)
    assert data.test_x.shape == (10, 3, 32, 32)
    assert data.train_y.tolist() == [label for label in range(10) for _ in range(2)]
    assert data.train_x[:, 0, 0, 0].tolist() == list(range(20))
    assert data.train_x[7, :, 3, 4].tolist() == [1, 2, 3]
    assert (data.class_names[0], data.class_names[9]) == ("airplane", "truck")
    assert data.train_x.flags.writeable
    assert data.train_x.flags.c_contiguous
    assert [path.name for path in data.files] == [*TRAIN, "test_batch.bin"]


def test_load_from_the_archive_is_the_same_and_writes_nothing(folder, archive, tmp_path):
    from_folder = cifar10.load(str(tmp_path))
    for path in folder.iterdir():
        path.unlink()
    before = sorted(tmp_path.rglob("*"))
    from_archive = cifar10.load(str(tmp_path))
    assert from_archive.files == (archive,)
    assert np.array_equal(from_folder.train_x, from_archive.train_x)
    assert np.array_equal(from_folder.test_y, from_archive.test_y)
    assert from_folder.class_names == from_archive.class_names
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("gone", ["data_batch_1.bin", "data_batch_4.bin", "test_batch.bin"])
def test_incomplete_folder(folder, tmp_path, refused, gone, request):
    (folder / gone).unlink()
    with refused("cifar10", gone, tmp_path, "`tfcsr data fetch cifar10", "cifar-10-binary.tar.gz"):
        cifar10.load(str(tmp_path))
    archive = request.getfixturevalue("archive")
    assert cifar10.paths(str(tmp_path)) == [archive]


def test_class_names_are_optional(folder, tmp_path):
    (folder / "batches.meta.txt").unlink()
    assert cifar10.load(str(tmp_path)).class_names[9] == "class 9"


def test_damaged_class_names(folder, tmp_path, refused):
    path = folder / "batches.meta.txt"
    path.write_bytes(NAMES.replace(b"truck", b"ship"))
    with refused(path, "10 class names, 9 different, expected 10"):
        cifar10.load(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("data_batch_3.bin", lambda raw: raw[:-1], "12291 bytes of records, expected 12292"),
        ("data_batch_3.bin", lambda raw: raw + b"\0", "more than 12292 bytes"),
        ("test_batch.bin", lambda raw: b"", "0 bytes of records, expected 30730"),
        ("data_batch_5.bin", lambda raw: b"\x0a" + raw[1:], "label 10, expected 0 to 9"),
        ("test_batch.bin", lambda raw: b"\3" + raw[1:], "0 images of class 0, expected 1"),
    ],
)
def test_the_file_that_is_wrong_is_named(folder, tmp_path, refused, name, change, said):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))
    with refused(f"{path}: ", said, "run `tfcsr data fetch cifar10`"):
        cifar10.load(str(tmp_path))


def test_of_a_class_in_several_files_the_folder_is_named(folder, archive, tmp_path, refused):
    path = folder / "data_batch_2.bin"
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    with refused(f"{folder}: 3 images of class 0, expected 2"):
        cifar10.load(str(tmp_path))
    content = members() | {f"{FOLDER}/{path.name}": path.read_bytes()}
    archive.write_bytes(gzip.compress(tar(content), 1))
    path.unlink()
    with refused(f"{archive}: 3 images of class 0, expected 2"):
        cifar10.load(str(tmp_path))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bytes(12_293), "data_batch_2.bin in it is not a regular file of at most 12292 bytes"),
        (bytes(12_291), "12291 bytes of records, expected 12292"),
        (None, f"no file {FOLDER}/data_batch_2.bin in it"),
    ],
)
def test_wrong_member(archive, tmp_path, refused, data, said):
    content = members() | {f"{FOLDER}/data_batch_2.bin": data}
    archive.write_bytes(gzip.compress(tar({name: data for name, data in content.items() if data is not None})))
    with refused(archive, said):
        cifar10.load(str(tmp_path))


def test_archive_that_unpacks_to_too_much(archive, tmp_path, refused):
    archive.write_bytes(gzip.compress(tar({"filler": bytes(5_000_000)} | members()), 1))
    with refused(archive, "unpacks to more than", "`tfcsr data fetch cifar10`"):
        cifar10.load(str(tmp_path))


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(draw=st.data())
def test_only_our_error_comes_out(archive, mutations, sound_or_refused, draw):
    plain = draw.draw(st.booleans())
    raw = draw.draw(mutations(tar(members()) if plain else gzip.compress(tar(members()), 1), 1024 if plain else 40))
    archive.write_bytes(gzip.compress(raw, 1) if plain else raw)
    with sound_or_refused(archive):
        cifar10.load(str(archive.parent))
