import gzip
import io
import tarfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfcsr.data import cifar100

PATH = Path("some.bin")


def records(per_class: int) -> bytearray:
    data = np.zeros((100 * per_class, 3074), np.uint8)
    data[:, 1] = np.arange(len(data)) % 100
    data[:, 0] = data[:, 1] // 5
    for channel in range(3):
        data[:, 2 + 1024 * channel : 2 + 1024 * (channel + 1)] = channel + 1
    data[:, 2] = np.arange(len(data)) % 256
    return bytearray(data.tobytes())


CLASS_NAMES = "".join(f"name_{i}\n" for i in range(100)).encode()


def members() -> dict[str, bytes]:
    folder = "cifar-100-binary"
    return {
        f"{folder}/coarse_label_names.txt": b"coarse\n",
        f"{folder}/fine_label_names.txt": CLASS_NAMES,
        f"{folder}/test.bin": bytes(records(1)),
        f"{folder}/train.bin": bytes(records(2)),
    }


def tar(content: dict[str, bytes], **types: bytes) -> bytes:
    """A tar of these files, where `types` gives a member (by its stem) another type than a regular file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.type = types.get(Path(name).stem, tarfile.REGTYPE)
            member.size = len(data) if member.isreg() else 0
            member.linkname = "" if member.isreg() else "/etc/hostname"
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return out.getvalue()


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(cifar100, "PER_CLASS", {"train.bin": 2, "test.bin": 1})


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, data in members().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "cifar-100-binary"


@pytest.fixture
def archive(tmp_path) -> Path:
    path = tmp_path / "cifar-100-binary.tar.gz"
    path.write_bytes(gzip.compress(tar(members()), 1))
    return path


def test_load_from_the_folder(folder, tmp_path):
    data = cifar100.load(str(tmp_path))
    assert data.train_x.shape == (200, 3, 32, 32)
    assert data.test_x.shape == (100, 3, 32, 32)
    assert data.train_y.tolist() == [*range(100), *range(100)]
    assert data.train_x[:, 0, 0, 0].tolist() == list(range(200))
    assert data.train_x[7, :, 3, 4].tolist() == [1, 2, 3]
    assert data.class_names[:2] == ("name_0", "name_1")
    assert data.train_x.flags.writeable
    assert data.train_x.flags.c_contiguous


def test_load_from_the_archive_is_the_same_and_writes_nothing(folder, archive, tmp_path):
    from_folder = cifar100.load(str(tmp_path))
    for path in folder.iterdir():
        path.unlink()
    before = sorted(tmp_path.rglob("*"))
    from_archive = cifar100.load(str(tmp_path))
    assert cifar100.paths(str(tmp_path)) == [archive]
    assert np.array_equal(from_folder.train_x, from_archive.train_x)
    assert np.array_equal(from_folder.test_y, from_archive.test_y)
    assert from_folder.class_names == from_archive.class_names
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("gone", ["train.bin", "test.bin"])
def test_incomplete_folder(folder, tmp_path, refused, gone, request):
    (folder / gone).unlink()
    with refused("cifar100", gone, tmp_path, "`tfcsr data fetch cifar100", "cifar-100-binary.tar.gz"):
        cifar100.load(str(tmp_path))
    archive = request.getfixturevalue("archive")
    assert cifar100.paths(str(tmp_path)) == [archive]


def test_class_names_are_optional(folder, tmp_path):
    (folder / "fine_label_names.txt").unlink()
    assert cifar100.load(str(tmp_path)).class_names[99] == "class 99"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (CLASS_NAMES[:-8], "99 class names, 99 different, expected 100"),
        (CLASS_NAMES.replace(b"name_1\n", b"name_2\n"), "100 class names, 99 different"),
        (CLASS_NAMES + b"name_1\n", "101 class names"),
        (b"\xff" * 100, "1 different"),
        (b"x" * 5000, "more than 4096 bytes"),
    ],
)
def test_damaged_class_names(folder, tmp_path, refused, content, said):
    path = folder / "fine_label_names.txt"
    path.write_bytes(content)
    with refused(path, said):
        cifar100.load(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw[:-1], "307399 bytes of records, expected 307400"),
        (lambda raw: raw + b"\0", "more than 307400 bytes"),
        (lambda raw: b"", "0 bytes of records"),
    ],
)
def test_wrong_size(folder, tmp_path, refused, change, said):
    path = folder / "test.bin"
    path.write_bytes(change(path.read_bytes()))
    with refused(path, said):
        cifar100.load(str(tmp_path))


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (0, 20, "coarse label 20, expected 0 to 19"),
        (1, 100, "fine label 100, expected 0 to 99"),
        (1, 3, "0 images of class 0, expected 1"),
    ],
)
def test_wrong_labels(refused, at, value, said):
    raw = records(1)
    raw[at] = value
    with refused(PATH, said, "`tfcsr data fetch cifar100`"):
        cifar100.read_records(PATH, bytes(raw), 1)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_link_in_place_of_a_member(archive, tmp_path, refused, kind):
    archive.write_bytes(gzip.compress(tar(members(), train=kind)))
    with refused(archive, "cifar-100-binary/train.bin in it is not a regular file"):
        cifar100.load(str(tmp_path))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bytes(records(1)) + b"\0", "not a regular file of at most 307400 bytes"),
        (bytes(records(1))[:-1], "307399 bytes of records, expected 307400"),
        (None, "no file cifar-100-binary/test.bin in it"),
    ],
)
def test_wrong_member(archive, tmp_path, refused, data, said):
    content = members() | {"cifar-100-binary/test.bin": data}
    archive.write_bytes(gzip.compress(tar({name: data for name, data in content.items() if data is not None})))
    with refused(archive, said):
        cifar100.load(str(tmp_path))


def test_names_are_exact(archive, tmp_path, refused):
    archive.write_bytes(gzip.compress(tar({f"./../{name}": data for name, data in members().items()})))
    with refused(archive, "no file cifar-100-binary/test.bin in it"):
        cifar100.load(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda packed: b"", "not an intact archive"),
        (lambda packed: b"text", "not an intact gzip file"),
        (lambda packed: gzip.compress(b"text"), "not an intact archive"),
        (lambda packed: packed[: len(packed) // 2], "not an intact gzip file"),
        (lambda packed: packed[:-4], "not an intact gzip file"),
        (lambda packed: packed[:-8] + bytes(8), "not an intact gzip file (CRC"),
        (lambda packed: gzip.compress(gzip.decompress(packed)[:500_000]), "not an intact archive"),
    ],
)
def test_damaged_archive(archive, tmp_path, refused, change, said):
    archive.write_bytes(change(archive.read_bytes()))
    with refused(archive, said):
        cifar100.load(str(tmp_path))


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_archive_of_zeros_fills_no_memory(archive, tmp_path, refused, kind):
    member = tarfile.TarInfo("filler")
    member.type, member.size = kind, 50_000_000
    header = member.tobuf(tarfile.GNU_FORMAT)
    archive.write_bytes(gzip.compress(header + bytes(50_000_000) + tar(members()), 1))
    tracemalloc.start()
    try:
        with refused(archive, "unpacks to more than"):
            cifar100.load(str(tmp_path))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_claim_of_much_more_than_there_is(archive, tmp_path, refused):
    member = tarfile.TarInfo("filler")
    member.size = 1 << 37
    archive.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + tar(members()), 1))
    start = time.monotonic()
    with refused(archive, "not an intact archive (unexpected end of data)"):
        cifar100.load(str(tmp_path))
    assert time.monotonic() - start < 5


def test_nonsense_in_an_extended_header(archive, tmp_path, refused):
    text = b"26 GNU.sparse.map=1,a,3,4\n"
    member = tarfile.TarInfo("filler")
    member.type, member.size = tarfile.XHDTYPE, len(text)
    header = member.tobuf(tarfile.GNU_FORMAT)
    archive.write_bytes(gzip.compress(header + text.ljust(512, b"\0") + tar(members()), 1))
    with refused(archive, "not an intact archive"):
        cifar100.load(str(tmp_path))


SETTINGS = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@SETTINGS
@given(draw=st.data())
def test_only_our_error_comes_out_of_records(mutations, sound_or_refused, draw):
    raw = draw.draw(mutations(bytes(records(1)), 10))
    with sound_or_refused(PATH):
        cifar100.read_records(PATH, raw, 1)


@SETTINGS
@given(draw=st.data())
def test_only_our_error_comes_out_of_a_damaged_gzip(archive, mutations, sound_or_refused, draw):
    archive.write_bytes(draw.draw(mutations(gzip.compress(tar(members()), 1), 40)))
    with sound_or_refused(archive):
        cifar100.load(str(archive.parent))


@SETTINGS
@given(draw=st.data(), kind=st.sampled_from([b"0", b"1", b"5", b"K", b"L", b"S", b"g", b"x", b"X"]))
def test_only_our_error_comes_out_of_a_damaged_tar(archive, mutations, sound_or_refused, draw, kind):
    """Headers with a right checksum and nonsense in them, which is where tarfile is weakest."""
    pax = b"26 GNU.sparse.map=1,2,3,4\n".ljust(512, b"\0")
    member = tarfile.TarInfo("filler")
    member.type, member.size = kind, len(pax)
    header = bytearray(draw.draw(mutations(member.tobuf(tarfile.GNU_FORMAT), 512)).ljust(512, b"\0")[:512])
    header[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(header))[0]
    archive.write_bytes(gzip.compress(bytes(header) + draw.draw(mutations(pax, 40)) + tar(members()), 1))
    with sound_or_refused(archive):
        cifar100.load(str(archive.parent))


def test_headers_nested_too_deep(archive, tmp_path, refused):
    member = tarfile.TarInfo("filler")
    member.type = tarfile.GNUTYPE_LONGNAME
    archive.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) * 3000 + tar(members())))
    with refused(archive, "not an intact archive"):
        cifar100.load(str(tmp_path))
