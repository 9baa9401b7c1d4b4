"""A lab's own parts, from files and modules of its own, on the command line and in worker processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfcsr
from tfcsr import plugins
from tfcsr.buffer.policies import POLICIES
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import SpecError
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.methods import METHODS
from tfcsr.models import MODELS
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.spec import RunSpec

SOURCE = str(Path(tfcsr.__file__).parents[1])
CPU = ("--device", "cpu")

METHOD = '''
from tfcsr import METHODS
from tfcsr.methods.er import ExperienceReplay
from tfcsr.options import Option


@METHODS.add("mine")
class Mine(ExperienceReplay):
    """Replay with a pull."""

    options = (*ExperienceReplay.options, Option("strength", float, 0.1, "how hard it pulls", low=0))

    def penalty(self):
        return self.spec.strength * sum(p.square().sum() for p in self.parameters())
'''

EVERYTHING = f'''{METHOD}
import numpy as np
from torch import nn
from tfcsr import BENCHMARKS, MODELS, Benchmark, Dataset
from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.reservoir import Reservoir
from tfcsr.recall.schedule import SCHEDULES, FixedSchedule

@MODELS.add("mlp2", options=(Option("width", int, 8, "neurons in the middle", low=1),))
def mlp2(shape, classes, width):
    pixels = shape[0] * shape[1] * shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, width), nn.ReLU(), nn.Linear(width, classes))


def load(data_dir):
    y = np.arange(80) % 4
    x = np.random.default_rng(0).integers(0, 100, (80, 1, 4, 4), dtype=np.uint8)
    x[np.arange(80), 0, y, :] += 120
    return Dataset("bright", x[:40], y[:40], x[40:], y[40:], tuple("abcd"), 255.0, (0.3,), (0.2,))


DEFAULTS = {{"epochs": 2, "batch_size": 8, "buffer_capacity": 8, "model": "mlp2"}}
BENCHMARKS.add("mine-bench")(Benchmark(load=load, classes=4, tasks=2, defaults=DEFAULTS))


@POLICIES.add("mine-policy")
class MinePolicy(Reservoir):
    """As it comes."""


@SCHEDULES.add("mine-schedule")
class MineSchedule(FixedSchedule):
    """Now and then."""
'''


def command(*arguments, cwd, path=(), **env):
    return subprocess.run(
        [sys.executable, "-m", "tfcsr", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([SOURCE, *map(str, path)]), "COLUMNS": "200"} | env,
    )


def done(*arguments, **more):
    """What it prints when all is well: then nothing stands on stderr."""
    ended = command(*arguments, **more)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return ended.stdout


def refused(*arguments, **more):
    """The one line that a mistake gets."""
    ended = command(*arguments, **more)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert ended.stderr.startswith("tfcsr: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr


@pytest.fixture
def method(tmp_path):
    file = tmp_path / "light.py"
    file.write_text(METHOD)
    return file


@pytest.fixture
def everything(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(EVERYTHING)
    return file


@pytest.fixture
def forgotten(monkeypatch):
    """What a test adds to this very process is gone afterwards."""
    modules, sources = set(sys.modules), dict(plugins._sources)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for registry in (METHODS, MODELS, BENCHMARKS, POLICIES, SCHEDULES):
        for name in registry.names():
            if registry.home(name) in sys.modules.keys() - modules and not registry.ships(name):
                registry.remove(name)
    for name in sys.modules.keys() - modules:
        if not name.startswith(("tfcsr", "torch", "numpy", "sklearn", "scipy")):
            del sys.modules[name]
    plugins._sources.clear()
    plugins._sources.update(sources)


def test_a_run_with_parts_of_ones_own(tmp_path, everything):
    parts = ("--benchmark", "mine-bench", "--policy", "mine-policy", "--width", "5")
    method = ("--method", "mine", "--strength", "0.3")
    done("run", "--plugin", everything, *method, *parts, *CPU, "--out", "r", cwd=tmp_path)
    spec = json.loads((tmp_path / "r" / "spec.json").read_text())
    assert (spec["strength"], spec["width"], spec["model"], spec["policy"]) == (0.3, 5, "mlp2", "mine-policy")
    assert set(spec["origin"]["code"]) == {"method mine", "benchmark mine-bench", "model mlp2", "policy mine-policy"}
    assert (tmp_path / "r" / "result.json").exists()


def test_its_options_are_flags_with_help(tmp_path, method):
    said = done("run", "--plugin", method, "--method", "mine", "--help", cwd=tmp_path)
    assert "options of mine:" in said
    assert "--strength X" in said
    assert "how hard it pulls (default: 0.1)" in said
    assert "--strength" not in done("run", "--plugin", method, "--method", "er", "--help", cwd=tmp_path)


def test_its_options_are_checked_like_ours(tmp_path, method):
    said = refused("run", "--plugin", method, "--method", "mine", "--strength", "-1", cwd=tmp_path)
    assert "strength -1 is impossible: it must be at least 0" in said


@pytest.mark.parametrize("variable", ["light.py", "{folder}/light.py", "light"])
def test_the_environment_names_plugins(tmp_path, method, variable):
    said = done("list", "methods", cwd=tmp_path, TFCSR_PLUGINS=variable.format(folder=tmp_path))
    assert "\nmine           Replay with a pull.\n" in said


def test_several_plugins_of_the_environment_are_separated_as_in_path(tmp_path, method):
    (tmp_path / "other.py").write_text(METHOD.replace('"mine"', '"other"'))
    said = done("list", "methods", cwd=tmp_path, TFCSR_PLUGINS=os.pathsep.join(["light.py", "other.py"]))
    assert "\nmine " in said
    assert "\nother " in said


def test_a_stopped_run_is_resumed_with_its_plugin(tmp_path, everything, forgotten):
    plugins.load(str(everything))
    stop, out = Stop(), tmp_path / "run"
    spec = RunSpec(benchmark="mine-bench", method="mine", device="cpu", threads=1, checkpoint_every=1, out=str(out))

    def listener(event):
        if event["event"] == "epoch_finished":
            stop.request()

    with pytest.raises(Interrupted):
        tfcsr.run(spec, [listener], stop)
    whole = tfcsr.run(spec.replace(out=None))
    assert "unknown benchmark 'mine-bench'" in refused("resume", out, cwd=tmp_path)
    done("resume", "--plugin", everything, out, cwd=tmp_path)
    assert json.loads((out / "result.json").read_text())["weights_sha256"] == whole.weights_sha256


def test_a_comparison_runs_plugins_in_worker_processes_and_is_reported(tmp_path, everything):
    everything.write_text(f"{EVERYTHING}\nprint('mine is here')\n")  # must not mix with what workers answer
    fields = ("--benchmark", "mine-bench", "--epochs", "1", *CPU, "--out", "c")
    grid = ("--methods", "er,mine", "--seeds", "2", "--workers", "2", "--strength", "0.3")
    ended = command("compare", "--plugin", everything, *fields, *grid, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, 2 * "mine is here\n"), ended.stdout + ended.stderr
    kept = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert {(run["method"], run["seed"]) for run in kept["runs"]} == {(m, s) for m in ("er", "mine") for s in (0, 1)}
    assert kept["errors"] == {}
    strengths = {json.loads(f.read_text()).get("strength") for f in (tmp_path / "c").glob("*/spec.json")}
    assert strengths == {None, 0.3}
    done("report", "--plugin", everything, "c", cwd=tmp_path)
    page = (tmp_path / "c" / "report.html").read_text()
    assert "tfcsr run --benchmark mine-bench --method mine" in page


def test_a_plugin_is_a_module_too(tmp_path, method):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "__init__.py").write_text("")
    method.rename(tmp_path / "lab" / "parts.py")
    said = done("run", "--plugin", "lab.parts", "--method", "mine", "--help", cwd=tmp_path)
    assert "--strength X" in said


def test_an_installed_package_announces_its_plugins(tmp_path, method):
    info = tmp_path / "site" / "lab-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tfcsr.plugins]\nlab = light\n")
    method.rename(tmp_path / "site" / "light.py")
    said = done("list", "methods", cwd=tmp_path, path=[tmp_path / "site"])
    assert "\nmine           Replay with a pull.\n" in said
    (tmp_path / "site" / "light.py").write_text("1 / 0\n")
    said = refused("list", "methods", cwd=tmp_path, path=[tmp_path / "site"])
    assert "lab (light)" in said
    assert "ZeroDivisionError" in said


def test_a_plugin_may_import_what_lies_beside_it(tmp_path, method):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "sibling.py").write_text("HELP = 'says the sibling'\n")
    text = "import sibling\n" + METHOD.replace('"how hard it pulls"', "sibling.HELP")
    (tmp_path / "lab" / "parts.py").write_text(text)
    assert "says the sibling" in done("run", "--plugin", "lab/parts.py", "--method", "mine", "--help", cwd=tmp_path)


def test_a_module_that_a_script_imported_is_known_to_its_workers(tmp_path, forgotten, monkeypatch):
    (tmp_path / "labparts.py").write_text(EVERYTHING)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("labparts")
    fields = {"benchmark": "mine-bench", "methods": ["er", "mine"], "seeds": 1, "epochs": 1, "strength": 0.2}
    comparison = tfcsr.compare(**fields, workers=2, device="cpu", out=tmp_path / "c")
    assert comparison.errors == {}
    assert {result.spec["method"] for result in comparison.results} == {"er", "mine"}

    def never(spec, news):
        assert not isinstance(news, dict), "what the workers made is not known here"

    tfcsr.compare(**fields, workers=1, device="cpu", out=tmp_path / "c", watcher=never)


def test_what_a_script_defines_itself_runs_in_its_own_process_and_it_is_said_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"{METHOD}\n"
        "import tfcsr.testing\n"
        "c = tfcsr.compare(benchmark='tiny', methods=['er', 'mine'], seeds=1, epochs=1, workers=2, device='cpu')\n"
        "print(len(c.results))\n"
    )
    ended = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    assert (ended.stdout, ended.returncode) == ("2\n", 0), ended.stderr
    assert ended.stderr.count("Warning") == 1
    assert "TfcsrWarning: the runs go on one after another in this process: method 'mine'" in ended.stderr
    assert "defined in __main__" in ended.stderr
    assert f"{script}:" in ended.stderr, "it points at the line that compares"


BAD = {
    "syntax.py": ("x = 1\ndef f(:\n", "SyntaxError", "(syntax.py, line 2)"),
    "raises.py": ("x = 1\n\n1 / 0\n", "ZeroDivisionError: division by zero", "(raises.py, line 3)"),
    "imports.py": ("import no_such_thing\n", "No module named 'no_such_thing'", "(imports.py, line 1)"),
    "hook.py": (METHOD.replace("def penalty", "def penlty"), "Mine.penlty is no hook", "did you mean penalty?"),
    "option.py": (METHOD.replace("float, 0.1", "float, -3"), "strength -3 is impossible", "at least 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_plugin_is_one_line(tmp_path, name):
    text, *expected = BAD[name]
    (tmp_path / name).write_text(text)
    said = refused("run", "--plugin", name, "--method", "mine", cwd=tmp_path)
    for words in expected:
        assert words in said


def test_a_broken_module_is_one_line(tmp_path):
    (tmp_path / "broken.py").write_text("def f():\n    import no_such_thing\n\n\nf()\n")
    said = refused("run", "--plugin", "broken", cwd=tmp_path)
    assert "plugin broken cannot be imported: ModuleNotFoundError: No module named 'no_such_thing'" in said
    assert "(broken.py, line 2)" in said


def test_a_missing_plugin_is_one_line(tmp_path):
    assert "plugin nope.py: there is no such file" in refused("run", "--plugin", "nope.py", cwd=tmp_path)
    assert "plugin nope: there is no such module" in refused("run", "--plugin", "nope", cwd=tmp_path)
    assert "plugin nope.py: there is no such file" in refused("list", "methods", cwd=tmp_path, TFCSR_PLUGINS="nope.py")


def test_an_option_of_another_method_is_said_to_be_that(tmp_path, method):
    assert "--alpha is an option of method derpp" in refused("run", "--method", "er", "--alpha", "0.3", cwd=tmp_path)
    said = refused("run", "--plugin", method, "--method", "er", "--strength", "0.3", cwd=tmp_path)
    assert "--strength is an option of method mine" in said


def test_an_unknown_name_may_be_a_plugins(tmp_path):
    said = refused("run", "--method", "mine", cwd=tmp_path)
    assert "unknown method 'mine'" in said
    assert "--plugin" in said


def test_a_plugin_is_imported_once(tmp_path, forgotten):
    (tmp_path / "count.py").write_text("import sys\nsys.loaded_by_test = getattr(sys, 'loaded_by_test', 0) + 1\n")
    try:
        for _ in range(2):
            plugins.load(str(tmp_path / "count.py"))
        assert sys.loaded_by_test == 1
    finally:
        del sys.loaded_by_test


def test_a_plugin_that_failed_can_be_mended_and_loaded(tmp_path, forgotten):
    file = tmp_path / "mended.py"
    file.write_text("1 / 0\n")
    with pytest.raises(SpecError, match="ZeroDivisionError"):
        plugins.load(str(file))
    file.write_text("PASSED = 1\n")
    plugins.load(str(file))
