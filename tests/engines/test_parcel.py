import threading

import numpy as np
import pytest

import tfcsr
from tests.conftest import make_spec, striped_dataset
from tests.experiments.conftest import essence
from tfcsr.data import sources
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.data.fingerprint import of_dataset
from tfcsr.engines import parcel
from tfcsr.errors import DataError
from tfcsr.experiments.origin import load
from tfcsr.experiments.run import advance
from tfcsr.experiments.together import finish
from tfcsr.spec import RunSpec

PRINT = "0123456789abcdef"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "cache", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "shipped"


def laid_out(dataset, fingerprint=PRINT, fetched=None):
    def part(data):
        if fetched is not None:
            fetched.append(len(data))
        return data

    parts = ((name, lambda data=data: part(data)) for name, data in parcel.chunks(dataset))
    parcel.lay_out(fingerprint, parcel.about(dataset), parts)


def test_a_dataset_arrives_as_it_was(own_cache, monkeypatch):
    monkeypatch.setattr(parcel, "CHUNK", 100)  # in many parts
    dataset = striped_dataset()
    assert parcel.find(PRINT) is None
    laid_out(dataset, of_dataset(dataset))
    found = parcel.find(of_dataset(dataset))
    for name in parcel.ARRAYS:
        there, here = getattr(found, name), getattr(dataset, name)
        assert there.dtype == here.dtype
        assert np.array_equal(there, here)
    for name in ("name", "class_names", "scale", "mean", "std"):
        assert getattr(found, name) == getattr(dataset, name)
    assert found.fingerprint == of_dataset(dataset)
    assert sorted(path.name for path in own_cache.iterdir()) == sorted([f".{found.fingerprint}", found.fingerprint])


def test_it_is_fetched_once_by_many(own_cache):
    fetched, dataset = [], striped_dataset()
    threads = [threading.Thread(target=laid_out, args=(dataset, PRINT, fetched)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 4  # its four arrays


def test_what_a_killed_process_has_left_is_made_anew(own_cache):
    for name in (f".{PRINT}.part", PRINT):
        (own_cache / name).mkdir(parents=True)
        (own_cache / name / "train_x").write_bytes(b"half")
    assert parcel.find(PRINT) is None
    laid_out(striped_dataset())
    assert np.array_equal(parcel.find(PRINT).train_x, striped_dataset().train_x)


def test_nonsense_is_refused_in_one_line(own_cache):
    with pytest.raises(DataError, match="is no fingerprint"):
        parcel.place("../../etc")
    laid_out(striped_dataset())
    (own_cache / PRINT / "train_x").write_bytes(b"short")
    with pytest.raises(DataError, match=r"is damaged .*: remove it, and it will come again"):
        parcel.find(PRINT)


def test_a_benchmark_of_somebodys_own_file_runs_where_the_file_is_not(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "mine.npz"
    np.savez(file, x=rng.integers(0, 255, (60, 8, 8), np.uint8), y=np.arange(60) % 3)
    spec = make_spec(benchmark=f"npz:{file}", method="er", epochs=1, model="tiny-linear", test_share=0.3)
    here, values, dataset = tfcsr.run(spec), spec.to_dict(), load(spec)
    laid_out(dataset, of_dataset(dataset))
    file.unlink()
    with pytest.raises(DataError):
        RunSpec.from_dict(values)
    try:
        shipped = parcel.find(of_dataset(dataset))
        parcel.adopt(spec.benchmark, shipped)
        there = RunSpec.from_dict(values)
        assert (there.key(), there.to_dict()) == (spec.key(), values)
        result = finish(there, advance(there, dataset=shipped))
    finally:
        BENCHMARKS.remove(spec.benchmark)
    assert essence(result) == essence(here)
    with pytest.raises(DataError):
        RunSpec.from_dict(values)
