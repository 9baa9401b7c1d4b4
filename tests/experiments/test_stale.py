"""A result of other code or other data is never taken for this one's."""

import json
import types

import numpy as np
import pytest

import tfcsr
from tests.conftest import make_spec
from tfcsr import Benchmark, Dataset
from tfcsr.cli import main
from tfcsr.data import digits, mnist
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import OutputError
from tfcsr.experiments.folder import RunFolder, list_runs
from tfcsr.experiments.reading import Results
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.methods import METHODS
from tfcsr.methods.er import ExperienceReplay
from tfcsr.reporting.report import write_report
from tfcsr.reporting.series import grouped
from tfcsr.training import VERSION

# As the README has it.
ANCHORED = '''
from tfcsr import METHODS
from tfcsr.methods.base import Method


@METHODS.add("anchored")
class Anchored(Method):
    """Pulls the weights back to where the last task left them."""

    anchor = None

    def end_task(self, task):
        self.anchor = [p.detach().clone() for p in self.parameters()]

    def penalty(self):
        if self.anchor is None:
            return None
        return 0.01 * sum((p - a).square().sum() for p, a in zip(self.parameters(), self.anchor))
'''


def register_method(weight="0.01", more=""):
    exec(ANCHORED.replace("0.01", weight) + more, vars(types.ModuleType("of_the_readme")))


def register_rows(shuffled=False, bright=120):
    def load(data_dir):
        rng = np.random.default_rng(0)
        y = np.arange(120) % 6
        x = rng.integers(0, 120, (120, 1, 12, 12), dtype=np.uint8)
        x[np.arange(120), 0, y, :] += bright
        labels = np.random.default_rng(1).permutation(y[:90]) if shuffled else y[:90]
        names = ("a", "b", "c", "d", "e", "f")
        return Dataset("rows", x[:90], labels, x[90:], y[90:], names, scale=255.0, mean=(0.27,), std=(0.19,))

    BENCHMARKS.add("rows")(Benchmark(load=load, classes=6, tasks=3, defaults={"epochs": 1, "buffer_capacity": 60}))


@pytest.fixture(autouse=True)
def forgotten():
    yield
    METHODS.remove("anchored")
    BENCHMARKS.remove("rows")


def of_method(out, **fields):
    return make_spec(method="anchored", epochs=1, out=str(out), **fields)


def of_rows(out):
    return make_spec(benchmark="rows", method="er", model="tiny-linear", out=str(out))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def never(event):
    pytest.fail("it was trained")


def test_the_same_code_is_not_run_again(tmp_path):
    register_method()
    first = tfcsr.run(of_method(tmp_path / "run"))
    register_method(more="# a word more\n")
    assert tfcsr.run(of_method(tmp_path / "run"), [never]) == first


def test_other_code_is_refused_and_the_old_result_kept(tmp_path):
    register_method()
    tfcsr.run(of_method(tmp_path / "run"))
    before = files(tmp_path / "run")
    register_method("1000")
    with pytest.raises(OutputError, match=r"the code of method anchored has changed since.*choose another --out"):
        tfcsr.run(of_method(tmp_path / "run"), [never])
    with pytest.raises(OutputError, match="the code of method anchored has changed since"):
        tfcsr.resume(tmp_path / "run", [never])
    assert files(tmp_path / "run") == before


def test_the_command_line_says_so_in_one_line(tmp_path, capsys):
    register_method()
    spec = of_method(tmp_path / "run")
    tfcsr.run(spec)
    register_method("1000")
    with pytest.raises(SystemExit) as caught:
        main(["run", *spec.flags(), "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    assert (caught.value.code, said.count("\n")) == (2, 1)
    assert "the code of method anchored has changed" in said


def test_the_same_data_is_not_trained_on_again(tmp_path):
    register_rows()
    first = tfcsr.run(of_rows(tmp_path / "run"))
    register_rows()
    assert tfcsr.run(of_rows(tmp_path / "run"), [never]) == first


def test_data_with_its_labels_shuffled_is_refused(tmp_path):
    register_rows()
    tfcsr.run(of_rows(tmp_path / "run"))
    before = files(tmp_path / "run")
    register_rows(shuffled=True)
    with pytest.raises(OutputError, match="the data has changed since"):
        tfcsr.run(of_rows(tmp_path / "run"), [never])
    assert files(tmp_path / "run") == before


def test_a_benchmark_that_loads_otherwise_has_other_code_and_other_data(tmp_path):
    register_rows()
    tfcsr.run(of_rows(tmp_path / "run"))
    register_rows(bright=121)
    with pytest.raises(OutputError) as caught:
        tfcsr.run(of_rows(tmp_path / "run"), [never])
    assert "the code of benchmark rows has changed since; the data has changed since" in str(caught.value)


def test_other_data_under_a_name_of_ours_is_refused(tmp_path, monkeypatch):
    spec = make_spec(benchmark="split-digits", method="finetune", epochs=1, max_per_class=8, out=str(tmp_path / "run"))
    tfcsr.run(spec)
    assert tfcsr.run(spec, [never]).spec["benchmark"] == "split-digits"
    real = digits.load()

    def mislabelled():
        return Dataset(**vars(real) | {"train_y": real.train_y[::-1].copy()})

    monkeypatch.setattr(digits, "load", mislabelled)
    with pytest.raises(OutputError, match=r"\(the data has changed since\)"):
        tfcsr.run(spec, [never])


def write_idx(path, array):
    header = np.array([0x0800 | array.ndim, *array.shape], ">u4").tobytes()
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def test_files_of_ours_that_have_changed_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "CLASS_COUNTS", {"train": (4,) * 10, "t10k": (2,) * 10})
    for split, each in (("train", 4), ("t10k", 2)):
        y = np.repeat(np.arange(10), each)
        write_idx(tmp_path / f"{split}-labels-idx1-ubyte", y)
        write_idx(tmp_path / f"{split}-images-idx3-ubyte", np.zeros((len(y), 28, 28)))
    fields = {"benchmark": "split-mnist", "model": "tiny-linear", "method": "finetune", "epochs": 1}
    spec = make_spec(**fields, data_dir=str(tmp_path), out=str(tmp_path / "run"))
    first = tfcsr.run(spec)
    assert (tmp_path / ".mnist.fingerprint.json").exists()
    assert tfcsr.run(spec, [never]) == first
    write_idx(tmp_path / "train-images-idx3-ubyte", np.ones((40, 28, 28)))
    with pytest.raises(OutputError, match=r"\(the data has changed since\)"):
        tfcsr.run(spec, [never])


def register_stored(folder):
    """Data in a file, whose fingerprint is kept beside it."""
    file = folder / "rows.npz"

    def load(data_dir):
        with np.load(file) as kept:
            x, y = kept["x"], kept["y"]
        return Dataset("rows", x[:90], y[:90], x[90:], y[90:], tuple("abcdef"), 255.0, (0.27,), (0.19,), files=(file,))

    BENCHMARKS.add("rows")(Benchmark(load=load, classes=6, tasks=3, defaults={"epochs": 1, "buffer_capacity": 60}))
    return file


def test_data_files_that_have_changed_are_noticed(tmp_path):
    file = register_stored(tmp_path)
    x, y = np.zeros((120, 1, 12, 12), np.uint8), np.arange(120) % 6
    np.savez(file, x=x, y=y)
    spec = of_rows(tmp_path / "run")
    first = tfcsr.run(spec)
    assert (tmp_path / ".rows.fingerprint.json").exists()
    assert tfcsr.run(spec, [never]) == first
    x[0, 0, 0, 0] = 1
    np.savez(file, x=x, y=y)
    with pytest.raises(OutputError, match=r"\(the data has changed since\)"):
        tfcsr.run(spec, [never])


def test_a_later_version_of_a_method_does_not_take_earlier_results(tmp_path, monkeypatch):
    spec = make_spec(method="finetune", epochs=1, out=str(tmp_path / "run"))
    tfcsr.run(spec)
    monkeypatch.setattr(METHODS.get("finetune"), "version", 2)
    with pytest.raises(OutputError, match="an older version of tfcsr trained it, which gives other weights"):
        tfcsr.run(spec, [never])
    kept = json.loads((tmp_path / "run" / "spec.json").read_text())["origin"]
    assert (kept["method"], kept["code"]) == (1, {})


def test_a_later_version_of_training_does_not_take_earlier_results(tmp_path, monkeypatch):
    spec = make_spec(method="finetune", epochs=1, out=str(tmp_path / "run"))
    tfcsr.run(spec)
    monkeypatch.setattr("tfcsr.experiments.origin.VERSION", 1_000)
    with pytest.raises(OutputError, match="an older version of tfcsr trained it"):
        tfcsr.run(spec, [never])


def stopped(spec):
    stop = Stop()

    def listener(event):
        if event["event"] == "epoch_finished":
            stop.request()

    with pytest.raises(Interrupted):
        tfcsr.run(spec, [listener], stop)


def test_a_stopped_run_does_not_go_on_with_other_code(tmp_path):
    register_method()
    spec = of_method(tmp_path / "run", checkpoint_every=1)
    stopped(spec)
    register_method("1000")
    for again in (lambda: tfcsr.run(spec, [never]), lambda: tfcsr.resume(tmp_path / "run", [never])):
        with pytest.raises(OutputError, match="the code of method anchored has changed since"):
            again()
    assert (tmp_path / "run" / "checkpoint").is_dir()
    register_method()
    assert tfcsr.resume(tmp_path / "run").weights_sha256 == tfcsr.run(spec.replace(out=None)).weights_sha256


def test_a_stopped_run_does_not_go_on_with_other_data(tmp_path):
    register_rows()
    spec = of_rows(tmp_path / "run").replace(checkpoint_every=1)
    stopped(spec)
    register_rows(shuffled=True)
    with pytest.raises(OutputError, match="the data has changed since"):
        tfcsr.resume(tmp_path / "run", [never])


def comparing(out, methods, **fields):
    """Which methods were trained, and the comparison."""
    trained = set()

    def watcher(spec, news):
        if isinstance(news, dict):
            trained.add(spec.method)

    base = {"benchmark": "tiny", "epochs": 1, "seeds": 1, "device": "cpu", "workers": 1}
    return trained, tfcsr.compare(methods=methods, out=out, watcher=watcher, **base | fields)


def test_a_comparison_trains_other_code_beside_the_old_and_keeps_both(tmp_path):
    register_method()
    assert comparing(tmp_path, ["er", "anchored"])[0] == {"er", "anchored"}
    old = files(next(tmp_path.glob("anchored-*")))
    assert comparing(tmp_path, ["er", "anchored"])[0] == set()

    register_method("1000")
    trained, comparison = comparing(tmp_path, ["er", "anchored"])
    assert trained == {"anchored"}
    folders = sorted(tmp_path.glob("anchored-*"))
    assert len(folders) == 2
    assert files(folders[0]) == old
    new = json.loads((folders[1] / "result.json").read_text())
    assert new["weights_sha256"] in {result.weights_sha256 for result in comparison.results}
    assert comparing(tmp_path, ["er", "anchored"])[0] == set(), "the new one is found again"
    said = json.loads((tmp_path / "comparison.json").read_text())["runs"]
    assert folders[1].name in {run["run"] for run in said}, "where it is, and not where the old one is"

    register_method()
    trained, comparison = comparing(tmp_path, ["er", "anchored"])
    assert trained == set(), "the old one is found again"
    first = json.loads(old["result.json"])["weights_sha256"]
    assert first in {result.weights_sha256 for result in comparison.results}
    assert len(list_runs(tmp_path)) == 3


def test_the_two_are_two_series(tmp_path):
    for weight in ("0.01", "1000"):
        register_method(weight)
        comparing(tmp_path, ["er", "anchored"])
    results = Results(tmp_path)
    results.look()
    (group,) = grouped(results.runs, results.baseline)
    labels = [series.label for series in group.series]
    assert len(labels) == len(set(labels)) == 3
    assert sum(label.startswith("anchored, code ") for label in labels) == 2
    assert "er" in labels
    assert all(len(series.runs) == 1 and series.repeated == 0 for series in group.series)
    page = write_report(tmp_path).read_text()
    assert all(label in page for label in labels)


def test_a_comparison_on_other_data_trains_everything_anew(tmp_path):
    fields = {"benchmark": "rows", "model": "tiny-linear"}
    register_rows()
    assert comparing(tmp_path, ["er", "finetune"], **fields)[0] == {"er", "finetune"}
    register_rows(shuffled=True)
    assert comparing(tmp_path, ["er", "finetune"], **fields)[0] == {"er", "finetune"}
    assert len(list_runs(tmp_path)) == 4
    results = Results(tmp_path)
    results.look()
    (group,) = grouped(results.runs)
    assert len({series.label for series in group.series}) == 4
    assert all("data " in series.label for series in group.series)
    register_rows()
    assert comparing(tmp_path, ["er", "finetune"], **fields)[0] == set()


def test_a_method_that_takes_the_place_of_ours_is_not_ours(tmp_path):
    """Registered under the same name it is other code, and comes back as ours when it is removed."""
    spec = make_spec(method="finetune", epochs=1, out=str(tmp_path / "run"))
    first = tfcsr.run(spec)
    exec(ANCHORED.replace('"anchored"', '"finetune"'), vars(types.ModuleType("of_somebody")))
    try:
        with pytest.raises(OutputError, match="the code of method finetune has changed since"):
            tfcsr.run(spec, [never])
    finally:
        METHODS.remove("finetune")
    assert tfcsr.run(spec, [never]) == first


def test_a_base_class_of_ours_counts_by_its_version(tmp_path, monkeypatch):
    """A method built on ours is another one when ours is."""
    METHODS.add("anchored")(type("Anchored", (ExperienceReplay,), {"__module__": "of_the_readme"}))
    tfcsr.run(of_method(tmp_path / "run"))
    assert tfcsr.run(of_method(tmp_path / "run"), [never])
    monkeypatch.setattr(ExperienceReplay, "version", 2)
    with pytest.raises(OutputError, match="an older version"):
        tfcsr.run(of_method(tmp_path / "run"), [never])


OTHER = {"seed": 1, "epochs": 2, "lr": 0.002, "model": "mlp", "policy": "class-balanced", "class_order": [*range(10)]}


@pytest.mark.parametrize("change", [None, *OTHER, "missing", "strange"])
def test_a_folder_that_says_the_same_is_told_from_others_without_being_understood(tmp_path, change, monkeypatch):
    """As it is by its meaning, which takes longer."""
    begun = tfcsr.RunSpec(method="er", device="cpu", out=str(tmp_path / "begun"))
    folder = RunFolder(tmp_path / "begun")
    folder.path.mkdir()
    folder.create(begun, origin := {"training": VERSION, "method": 1, "data": "", "code": {}})
    written = json.loads(folder.spec_file.read_text())
    if change == "missing":  # of a folder from before there was such a field
        del written["repeat"]
    elif change == "strange":
        written["weather"] = "fine"
    folder.spec_file.write_text(json.dumps(written))
    asked = begun.replace(**{change: OTHER[change]}) if change in OTHER else begun
    asked = asked.replace(out=str(tmp_path / "elsewhere"))
    found = folder.holds(asked, origin)
    assert found == (change in (None, "missing"))
    assert not folder.holds(asked, origin | {"data": "other"})
    understood = []
    read = tfcsr.RunSpec.read.__func__
    monkeypatch.setattr(tfcsr.RunSpec, "read", classmethod(lambda cls, v: understood.append(v) or read(cls, v)))
    assert folder.holds(asked, origin) == found
    assert bool(understood) == (change is not None)
    if found:
        assert folder.completed(asked, origin) is None
    else:
        with pytest.raises(OutputError):
            folder.completed(asked, origin)
