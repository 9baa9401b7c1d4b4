import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.conftest import make_spec

from tfcsr import RunSpec
from tfcsr.cli import main
from tfcsr.data import folders
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.data.dataset import Dataset
from tfcsr.data.fingerprint import of_dataset
from tfcsr.errors import DataError, SpecError
from tfcsr.experiments.origin import load, origin
from tfcsr.experiments.run import run

CLASSES = ("apple", "cherry", "plum")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TFCSR_DATA", str(tmp_path_factory.mktemp("cache")))


def draw(folder: Path, name: str, shade: int, shape: tuple[int, ...] = (8, 8, 3)) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(shape, shade, np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path):
    """Classes of 6, 10 and 3 images."""
    for label, count in enumerate((6, 10, 3)):
        for i in range(count):
            draw(tmp_path / "fruit", f"{CLASSES[label]}/{i}.png", 80 * label + i)
    return tmp_path / "fruit"


@pytest.fixture
def split_folder(folder):
    for name in CLASSES:
        (folder / "train").mkdir(exist_ok=True)
        (folder / name).rename(folder / "train" / name)
        draw(folder / "test", f"{name}/x.png", 250)
    return folder


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "fruit.npz"
    x = np.arange(30, dtype=np.uint8).reshape(30, 1, 1) + np.zeros((30, 8, 8), np.uint8)
    np.savez(path, x=x, y=np.array(CLASSES)[np.arange(30) % 3])
    return path


def dataset(benchmark: str, **options: object) -> Dataset:
    return load(RunSpec(benchmark=benchmark, **options))


def shades(x: np.ndarray) -> list[int]:
    return x[:, 0, 0, 0].tolist()


def test_a_folder(folder):
    found = dataset(f"folder:{folder}")
    assert found.class_names == CLASSES
    assert found.train_x.shape == (15, 3, 8, 8)
    assert shades(found.test_x) == [4, 84, 89, 162]
    assert found.test_y.tolist() == [0, 1, 1, 2]
    assert found.scale == 255
    assert found.mean == pytest.approx((found.train_x / 255).mean(axis=(0, 2, 3)))
    assert found.std == pytest.approx((found.train_x / 255).std(axis=(0, 2, 3)))
    assert shades(dataset(f"folder:{folder}", test_share=0.5).test_x) == [1, 3, 5, 81, 83, 85, 87, 89, 161]


def test_a_folder_with_a_test_part(split_folder):
    found = dataset(f"folder:{split_folder}", size=4)
    assert found.train_x.shape == (19, 3, 4, 4)
    assert shades(found.test_x) == [250] * 3


def test_images_stay_in_their_file(folder, monkeypatch):
    """Neither the dataset nor its fingerprint reads or copies them."""
    first = dataset(f"folder:{folder}")
    monkeypatch.setattr(folders, "decoded", None)
    monkeypatch.setattr("tfcsr.fingerprint.of_arrays", None)
    again = dataset(f"folder:{folder}")
    assert again.train_x.base is not None
    # One follows the other in the same file.
    start, end = (x.__array_interface__["data"][0] for x in (again.train_x, again.test_x))
    assert end - start == again.train_x.nbytes
    assert of_dataset(first) == of_dataset(again) == again.fingerprint != ""


def test_the_fingerprint_follows_what_is_in_it(folder):
    known = {of_dataset(dataset(f"folder:{folder}", **options)) for options in ({}, {"size": 4}, {"test_share": 0.5})}
    draw(folder, "plum/0.png", 255)
    known.add(of_dataset(dataset(f"folder:{folder}")))
    draw(folder, "plum/9.png", 255)
    known.add(of_dataset(dataset(f"folder:{folder}")))
    assert len(known) == 5


def test_no_byte_is_above_255(monkeypatch):
    class Unread(np.ndarray):
        def max(self, *_, **__):
            raise AssertionError("read")

    x = np.zeros((2, 1, 1, 1), np.uint8).view(Unread)
    y = np.arange(2)
    Dataset("toy", x, y, x, y, ("a", "b"), 255.0, (0.5,), (0.5,))
    with pytest.raises(AssertionError, match="read"):
        Dataset("toy", x, y, x, y, ("a", "b"), 254.0, (0.5,), (0.5,))


def test_an_npz(file):
    found = dataset(f"npz:{file}")
    assert found.class_names == CLASSES
    assert found.train_x.shape == (24, 1, 8, 8)
    assert shades(found.test_x) == [12, 13, 14, 27, 28, 29]
    assert found.test_y.tolist() == [0, 1, 2] * 2
    assert found.mean == (pytest.approx(found.train_x.mean() / 255),)
    assert of_dataset(found) == of_dataset(dataset(f"npz:{file}"))
    assert of_dataset(found) != of_dataset(dataset(f"npz:{file}", test_share=0.5))


@pytest.mark.parametrize(
    "labels", [np.array([7, -2, 30]), np.array([b"p", b"a", b"z"]), np.array([7, 2, 30], np.uint8)]
)
def test_an_npz_with_a_test_part(tmp_path, labels):
    x = np.random.default_rng(0).integers(0, 256, (9, 3, 6, 5), np.uint8)
    np.savez(tmp_path / "x.npz", train_x=x, train_y=np.tile(labels, 3), test_x=x[:3], test_y=labels[::-1])
    found = dataset(f"npz:{tmp_path}/x.npz")
    assert np.array_equal(found.train_x, x)
    assert found.train_y.tolist() == [1, 0, 2] * 3
    assert found.test_y.tolist() == [2, 0, 1]
    expected = sorted(labels.tolist())
    assert found.class_names == tuple(v.decode() if isinstance(v, bytes) else str(v) for v in expected)


Y = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((4, 8), np.uint8)}, "uint8 (4, 8): a benchmark takes images, uint8 [N, C, H, W] or [N, H, W]"),
        ({"x": np.zeros((4, 1, 8, 8))}, "float64 (4, 1, 8, 8): a benchmark takes images"),
        ({"x": np.zeros((4, 8, 8, 3), np.uint8)}, "look like [N, H, W, C]"),
        ({"y": np.array([0, 1, 0, 2])}, "class '1' of {} has one image"),
        ({"test_x": np.zeros((1, 8, 8), np.uint8), "test_y": Y[:1]}, "no test example of class '1'"),
        (
            {"test_x": np.zeros((4, 8, 8), np.uint8), "test_y": Y + 1},
            "test examples of class '2' and none for training",
        ),
        ({"test_x": np.zeros((4, 8, 8), np.uint8), "test_y": Y.astype(str)}, "int64 for training and <U21 for testing"),
        ({"test_x": np.zeros((4, 9, 9), np.uint8), "test_y": Y}, "train images are (1, 8, 8), test images (1, 9, 9)"),
    ],
)
def test_an_npz_that_is_no_benchmark(tmp_path, refused, arrays, said):
    path = tmp_path / "x.npz"
    np.savez(path, **{"x": np.zeros((4, 8, 8), np.uint8), "y": Y} | arrays)
    with refused(path, said.replace("{}", str(path))):
        dataset(f"npz:{path}")


def test_a_spec_has_the_classes_of_the_data(folder, file):
    for name in (f"folder:{folder}", f"npz:{file}"):
        assert RunSpec(benchmark=name).tasks == 3
        with pytest.raises(SpecError, match="more than the 3 classes"):
            RunSpec(benchmark=name, tasks=4)
    for i in range(6):
        draw(folder, f"more{i}/1.png", 1)
    assert RunSpec(benchmark=f"folder:{folder}").tasks == 5
    spec = RunSpec(benchmark=f"folder:{folder}", size=16, skip_unreadable=True)
    assert spec.given() == {
        "benchmark": f"folder:{folder}",
        "method": "tfcsr",
        "size": 16,
        "skip_unreadable": True,
    }
    assert spec == RunSpec(**spec.to_dict())


def test_an_npz_that_changes_is_looked_at_again(file):
    assert RunSpec(benchmark=f"npz:{file}").tasks == 3
    np.savez(file, x=np.zeros((4, 8, 8), np.uint8), y=Y)
    assert RunSpec(benchmark=f"npz:{file}").tasks == 2


def test_a_spec_of_a_folder_needs_nothing_heavy(folder):
    code = f"""
import sys
from tfcsr.data.benchmarks import BENCHMARKS
assert BENCHMARKS.get("folder:" + {str(folder)!r}).classes == 3
assert not {{"torch", "PIL", "numpy"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("benchmark", "said"),
    [
        ("folder:{}/nope", "there is no folder {}/nope"),
        ("folder:{}/fruit.npz", "{}/fruit.npz is not a folder"),
        ("folder:{}/fruit/apple", "0.png lies directly in {}/fruit/apple"),
        ("folder:~nobody-of-this-name/x", "there is no folder ~nobody"),
        ("npz:{}/nope.npz", "there is no file {}/nope.npz"),
        ("npz:{}/fruit", "{}/fruit is not a regular file"),
        ("npz:{}/fruit/apple/0.png", "is not an .npz file"),
        ("npz:~nobody-of-this-name/x", "there is no file ~nobody"),
    ],
)
def test_a_wrong_path_is_one_line(folder, file, capsys, benchmark, said):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--benchmark", benchmark.format(file.parent)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said.format(*[file.parent] * said.count("{}")) in error
    assert error.count("\n") == 1


def test_a_missing_test_class_and_a_lonely_image(split_folder, refused):
    (split_folder / "test/plum/x.png").unlink()
    (split_folder / "test/plum").rmdir()
    with refused(split_folder / "test", "has no image of class 'plum'"):
        dataset(f"folder:{split_folder}")
    for name in ("test/apple", "test/cherry"):
        (split_folder / name / "x.png").unlink()
        (split_folder / name).rmdir()
    (split_folder / "test").rmdir()
    for i in (1, 2):
        (split_folder / f"train/plum/{i}.png").unlink()
    with refused("class 'plum'", "one image", "add images or a test part"):
        dataset(f"folder:{split_folder}")


def test_unreadable_images(folder, refused):
    (folder / "apple/0.png").write_bytes(b"")
    with refused("1 of 19 files cannot be read: apple/0.png (empty)", "--skip-unreadable"):
        dataset(f"folder:{folder}")
    assert len(dataset(f"folder:{folder}", skip_unreadable=True).train_y) == 14


@pytest.mark.parametrize("kind", ["folder", "npz"])
def test_a_run(folder, file, kind, tmp_path):
    spec = make_spec(
        benchmark=f"{kind}:{folder if kind == 'folder' else file}", out=str(tmp_path / "out"), model="cnn", epochs=1
    )
    first = run(spec)
    again = run(spec)
    assert first.to_dict() == again.to_dict()
    assert origin(spec, "data")["code"] == {}  # it is one of ours
    assert BENCHMARKS.ships(spec.benchmark)


def test_the_command_line(folder, tmp_path, capsys):
    out = tmp_path / "out"
    main(["run", "--benchmark", f"folder:{folder}", "--out", str(out), "--size", "8", "--epochs", "1"])
    assert "final accuracy" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["run", "--benchmark", f"folder:{folder}", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(flag in text for flag in ("--size", "--skip-unreadable", "--test-share"))
    with pytest.raises(SystemExit):
        main(["run", "--size", "8"])
    assert "--size is an option of benchmark folder:PATH" in capsys.readouterr().err


def test_paths_begin_at_home(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert dataset("folder:~/fruit").class_names == CLASSES
    monkeypatch.chdir(folder)
    assert dataset("folder:.").class_names == CLASSES
    with pytest.raises(DataError):
        dataset("folder:./nope")
