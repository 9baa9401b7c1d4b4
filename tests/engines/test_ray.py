"""The Ray engine on a pretended cluster. `python -m tests.nightly.cluster` is the real thing."""

import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tfcsr
from tests.conftest import make_spec
from tests.experiments.conftest import essence
from tfcsr.cli import main
from tfcsr.data import sources
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.engines import alike, engine_of, parcel, slot
from tfcsr.engines import ray as module
from tfcsr.engines.ray import Ray
from tfcsr.errors import BusyError, DataError, DeviceError, OutputError, SpecError, TfcsrError
from tfcsr.experiments.compare import execute
from tfcsr.experiments.origin import Origins
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.files import locked

GRID = {"benchmark": "tiny", "methods": ["er", "tfcsr"], "seeds": 2, "epochs": 3, "device": "cpu"}


@pytest.fixture(scope="module")
def alone():
    """The same grid in this process."""
    return [essence(result) for result in tfcsr.compare(**GRID, workers=1).results]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """`tiny` comes with this process."""
    monkeypatch.setattr("tfcsr.plugins._sources", {name: name for name in ("tfcsr.testing", "tests.conftest")})


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "cache", lambda: tmp_path / "cache")


@pytest.fixture(autouse=True)
def own_slots(tmp_path, monkeypatch):
    """What a slot keeps is looked for: what tests beside this one keep meanwhile is not to be found."""
    place = tmp_path / "slots"
    place.mkdir()
    monkeypatch.setattr(slot.tempfile, "tempdir", str(place))
    return place


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_UPDATES", 0.02)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_COUNTS", 0.0)


def test_a_grid_on_a_cluster_gives_the_same_bits(tmp_path, own_slots, cluster, threads, alone):
    seen = []
    found = tfcsr.compare(
        **GRID, engine="ray", out=tmp_path / "grid", watcher=lambda spec, news: seen.append((spec.seed, type(news)))
    )
    assert [essence(result) for result in found.results] == alone
    assert {kind for _, kind in seen} == {dict, tfcsr.Result}
    assert len(threads.made) == 2  # one for each core, used again
    assert {actor.node for actor in cluster.actors} == {0, 1}
    assert cluster.started == [
        {"address": "local", "log_to_driver": False, "logging_level": 40, "include_dashboard": False}
        | {"num_cpus": module.cores()}
    ]
    assert not cluster.open
    assert not cluster.put_away  # the data was there
    for run in (tmp_path / "grid").glob("*/"):
        assert sorted(path.name for path in run.iterdir()) == [
            "events.jsonl",
            "model.safetensors",
            "result.json",
            "spec.json",
        ]
    assert not list(own_slots.glob("tfcsr-slot-*/[0-9]*"))
    # Once more: everything is read, and nothing is started.
    again = tfcsr.compare(**GRID, engine="ray", out=tmp_path / "grid")
    assert [essence(result) for result in again.results] == alone
    assert len(cluster.started) == 1


def test_runs_that_keep_nothing(cluster, alone):
    assert [essence(result) for result in tfcsr.compare(**GRID, engine="ray").results] == alone


def test_a_node_that_is_lost(tmp_path, cluster, alone):
    lost = []

    def watcher(spec, news):
        if isinstance(news, dict) and news["event"] == "task_finished" and news["task"] == 2 and not lost:
            lost.append(spec)
            cluster.lose_node(0)
            cluster.lose_node(1)
            cluster.alive = [True, True]
        elif isinstance(news, dict) and news["event"] in ("node_lost", "run_resumed"):
            lost.append(news["event"])

    found = tfcsr.compare(**GRID, engine="ray", out=tmp_path, watcher=watcher, checkpoint_every=1)
    assert lost[1:3] == ["node_lost", "node_lost"]
    assert "run_resumed" in lost
    assert [essence(result) for result in found.results] == alone


def test_a_run_that_is_lost_again_and_again_is_given_up(cluster, monkeypatch):
    monkeypatch.setattr(module, "MOST_LOSSES", 3)

    def watcher(spec, news):
        if isinstance(news, dict) and news["event"] == "run_started" and spec.method == "er":
            for actor in cluster.actors:
                runs = [order["spec"]["method"] for order in actor.thing._worker.told[-1:]]
                if not actor.lost and runs == ["er"]:
                    actor.lose("it was out of memory")

    found = tfcsr.compare(**GRID | {"seeds": 1}, engine="ray", watcher=watcher)
    assert [result.spec["method"] for result in found.results] == ["tfcsr"]
    (said,) = found.errors.values()
    assert "was lost 3 times with the process or node it ran on (" in said


def test_a_process_that_is_killed_costs_only_its_run(cluster, threads):
    killed = []

    def watcher(spec, news):
        if isinstance(news, dict) and news["event"] == "epoch_finished" and not killed:
            killed.append(spec)
            for worker in threads.made:
                if worker.told[-1]["spec"]["seed"] == spec.seed and worker.told[-1]["spec"]["method"] == spec.method:
                    worker.kill()

    found = tfcsr.compare(**GRID, engine="ray", watcher=watcher)
    assert len(found.results) == 3
    assert "ended with code -9: was it killed, or out of memory? (on node" in next(iter(found.errors.values()))


def test_a_stop_saves_what_there_is_and_the_next_goes_on(tmp_path, cluster, alone):
    stop = Stop()

    def watcher(spec, news):
        if isinstance(news, dict) and news["event"] == "epoch_finished" and news["task"] == 2:
            stop.request(signal.SIGINT)

    grid = GRID | {"out": tmp_path, "engine": "ray", "checkpoint_every": 1}
    with pytest.raises(Interrupted) as interrupted:
        tfcsr.compare(**grid, watcher=watcher, stop=stop)
    assert interrupted.value.number == signal.SIGINT
    begun = list(tmp_path.glob("*/checkpoint/*.json"))
    assert begun
    assert not list(tmp_path.rglob(".lock"))
    assert [essence(result) for result in tfcsr.compare(**grid).results] == alone


def test_a_run_that_another_process_has_in_hand_is_left_to_it(tmp_path, cluster):
    spec = make_spec(method="er", epochs=1, out=str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    news = []
    with locked(tmp_path / "run"), Ray() as engine:
        engine.prepare([spec])
        engine.run([spec], lambda spec, update: news.append(update), Stop(), Origins())
    assert [type(update) for update in news] == [BusyError]


def test_what_cannot_be_kept_here_ends_the_run_and_no_other(tmp_path, cluster, monkeypatch):
    take = module.Home.take

    def full(home, kind, value):
        if home.spec.method == "er" and kind == "checkpoint":
            raise OutputError(f"cannot write {home.folder.path}: No space left on device")
        take(home, kind, value)

    monkeypatch.setattr(module.Home, "take", full)
    found = tfcsr.compare(**GRID, engine="ray", out=tmp_path, checkpoint_every=1)
    assert [result.spec["method"] for result in found.results] == ["tfcsr", "tfcsr"]
    assert all("No space left" in error for error in found.errors.values())


def test_a_run_that_fails_there_says_why_and_where(tmp_path, cluster):
    specs = [make_spec(model=model, method="er", out=str(tmp_path / model)) for model in ("exploding", "tiny-linear")]
    failed, sound = execute(specs, engine="ray")
    assert isinstance(sound, tfcsr.Result)
    assert str(failed).endswith(f"(on node {slot.platform.node()})")
    assert "tfcsr-slot" not in str(failed)


def test_data_is_shipped_once_a_node_where_it_is_not_there(tmp_path, cluster, monkeypatch):
    rng = np.random.default_rng(0)
    file = tmp_path / "mine.npz"
    np.savez(file, x=rng.integers(0, 255, (60, 8, 8), np.uint8), y=np.arange(60) % 3)
    spec = make_spec(benchmark=f"npz:{file}", method="er", epochs=1, model="tiny-linear")
    specs = [spec.replace(seed=seed, out=str(tmp_path / str(seed))) for seed in range(3)]
    here = [essence(tfcsr.run(spec.replace(out=None))) for spec in specs]
    origins = Origins()
    data = origins[spec]["data"]
    assert parcel.find(data) is None

    def nowhere(spec):
        raise DataError("there is no such file on this node")

    monkeypatch.setattr("tfcsr.experiments.origin.load", nowhere)
    found = execute(specs, engine="ray", origins=origins)
    BENCHMARKS.remove(spec.benchmark)
    assert [essence(result) for result in found] == here
    assert len(cluster.put_away) == 4  # four arrays, once for both nodes
    assert parcel.find(data) is not None


def test_plugins_are_shipped_as_text(tmp_path, cluster, threads, monkeypatch):
    from tfcsr import plugins

    file = tmp_path / "mine.py"
    file.write_text(
        "from tfcsr import METHODS\nfrom tfcsr.methods.er import ExperienceReplay as Er\nMETHODS.add('mine-ray')(Er)\n"
    )
    try:
        plugins.load(str(file))
        spec = make_spec(method="mine-ray", epochs=1)
        sent = []
        start = slot.Slot.start

        def there(self, plugins, *more):
            sent.append(plugins)
            file.rename(tmp_path / "gone.py") if file.exists() else None  # that node does not have it
            start(self, plugins, *more)

        monkeypatch.setattr(slot.Slot, "start", there)
        cluster.cpus = [1, 0]
        (result,) = execute([spec], engine="ray")
        assert isinstance(result, tfcsr.Result)
        assert [str(file), "from tfcsr import"] == [sent[0][0][0], sent[0][0][1][:17]]
        ((copy, known_as), *_) = threads.made[0].plugins
        assert (known_as, Path(copy).name) == (str(file), "mine.py")
        assert copy != known_as
        name = tfcsr.METHODS.home("mine-ray")
        tfcsr.METHODS.remove("mine-ray")
        del sys.modules[name]
        again = tmp_path / "elsewhere" / "mine.py"
        again.parent.mkdir()
        again.write_text((tmp_path / "gone.py").read_text())
        plugins.load(str(again), known_as)
        assert tfcsr.METHODS.home("mine-ray") == name
    finally:
        tfcsr.METHODS.remove("mine-ray")


def test_a_plugin_that_nodes_cannot_import_is_refused(cluster, monkeypatch):
    monkeypatch.setattr("tfcsr.engines.needed_plugins", lambda specs: ([], "x"))
    monkeypatch.setattr(module, "needed_plugins", lambda specs: ([], "method 'mine' is defined in __main__"))
    with pytest.raises(SpecError, match="engine ray: method 'mine' is defined in __main__"):
        tfcsr.compare(**GRID, engine="ray")


def test_a_worker_that_cannot_begin_fails_its_runs_and_does_not_hang(cluster, threads, monkeypatch):
    def refuse(self):
        raise SpecError("plugin x cannot be imported")

    monkeypatch.setattr(threads, "begin", refuse, raising=False)
    outcomes = execute([make_spec(method="er", seed=seed, epochs=1) for seed in range(3)], engine="ray")
    assert ["plugin x cannot be imported (on node" in str(error) for error in outcomes] == [True] * 3


def test_nodes_with_other_versions_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(slot.Slot, "hello", lambda self: slot.versions() | {"host": "far", "torch": "1.0"})
    with pytest.raises(SpecError, match=r"node far has torch 1.0, this machine .*: results would differ"):
        tfcsr.compare(**GRID, engine="ray")
    monkeypatch.setattr(slot.Slot, "hello", lambda self: 1 / 0)
    with pytest.raises(TfcsrError, match=r"the nodes cannot run tfcsr .*division by zero"):
        tfcsr.compare(**GRID, engine="ray")


def test_devices_are_the_clusters(cluster):
    with Ray() as engine:
        assert engine.fitted(make_spec(device="auto", threads=0)).device == "cpu"
        assert engine.fitted(make_spec(threads=0)).threads == 1
        with pytest.raises(DeviceError, match="no node of the Ray cluster has a GPU"):
            engine.fitted(make_spec(device="cuda"))
        with pytest.raises(DeviceError, match="threads 4: no node of the Ray cluster has more than 1 CPUs"):
            engine.fitted(make_spec(threads=4))
        with pytest.raises(SpecError, match="buffer_on disk: a run's buffer does not travel with Ray; use ram"):
            engine.fitted(make_spec(method="er", buffer_on="disk"))
        cluster.gpus = [0, 2]
        fitted = engine.fitted(make_spec(device="auto", precision="auto"))
        assert (fitted.device, fitted.precision) == ("cuda", "bf16")
        with pytest.raises(DeviceError, match="device cuda:1: Ray decides which GPU"):
            engine.fitted(make_spec(device="cuda:1"))


@pytest.mark.parametrize(("workers", "expected"), [(0, [0, 0]), (3, [1, 2]), (1, [1])])
def test_runs_are_packed_on_whole_gpus(cluster, threads, monkeypatch, workers, expected):
    cluster.gpus = [1, 1]
    tell = threads.tell

    def on_cpu(self, order):
        tell(self, order and order | {"spec": order["spec"] | {"device": "cpu", "precision": "fp32"}})

    monkeypatch.setattr(threads, "tell", on_cpu)
    monkeypatch.setattr(module.Home, "finish", lambda home, values: tfcsr.Result.from_dict(values))
    specs = [make_spec(method="er", epochs=1, seed=seed, device="cuda", precision="fp32") for seed in range(6)]
    with Ray(workers) as engine:
        assert engine.prepare(specs) == workers
        found = execute(specs, engine=engine)
    assert all(isinstance(result, tfcsr.Result) for result in found)
    assert {actor.needs["num_gpus"] for actor in cluster.actors} == {1}
    assert sorted(worker.at_once for worker in threads.made) == expected


def test_a_cluster_that_grows_is_used(cluster, threads):
    cluster.cpus = [1, 0]
    specs = [make_spec(method="er", epochs=2, seed=seed) for seed in range(8)]

    def watcher(spec, news):
        cluster.cpus = [1, 2]

    assert all(isinstance(result, tfcsr.Result) for result in execute(specs, engine="ray", watcher=watcher))
    assert len(threads.made) == 3


def test_the_clusters_own_connection_is_left_as_it_is(cluster):
    cluster.open = True
    tfcsr.compare(**GRID | {"seeds": 1}, engine="ray")
    assert cluster.open
    assert not cluster.started


def test_handlers_and_environment_are_as_before(cluster, monkeypatch):
    def init(**settings):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert module.os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        raise ConnectionError("nobody there\nmore")

    monkeypatch.setattr(cluster, "init", init)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SpecError, match=r"cannot connect to Ray at auto: nobody there$"):
        tfcsr.compare(**GRID, engine="ray", address="auto")
    assert signal.getsignal(signal.SIGTERM) == before
    assert "RAY_USAGE_STATS_ENABLED" not in module.os.environ


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "slurm"], "unknown engine 'slurm': use one of local, ray"),
        (["--address", "auto"], "only engine ray has one"),
        (["--engine", "ray", "--address", "nonsense"], "use auto, HOST:PORT or ray://HOST:PORT"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "cannot connect to Ray at 127.0.0.1:1: "),
        (["--engine", "ray", "--address", "127.0.0.1:99999999"], "cannot connect to Ray at 127.0.0.1:99999999: "),
    ],
)
@pytest.mark.parametrize("command", ["compare", "reproduce", "resume"])
def test_refusals_are_one_line(tmp_path, cluster, capsys, words, said, command):
    first = {
        "compare": ["compare", "--methods", "er", "--seeds", "1", "--benchmark", "tiny", "--out", str(tmp_path / "x")],
        "reproduce": ["reproduce", "fig1", "--data", "tiny", "--seeds", "1", "--out", str(tmp_path / "x")],
        "resume": ["resume", str(tmp_path)],
    }[command]
    (tmp_path / "run").mkdir()
    spec = make_spec(method="er")
    module.Home(spec.replace(out=str(tmp_path / "run")), Origins()[spec]).folder.create(spec, Origins()[spec])
    with pytest.raises(SystemExit) as ended:
        main([*first, *words])
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in error
    assert error.count("\n") == 1
    assert not cluster.started


def test_without_ray_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--methods", "er", "--seeds", "1", "--benchmark", "tiny", "--engine", "ray"])
    assert ended.value.code == 2
    assert "pip install 'tfcsr[ray]'" in capsys.readouterr().err


def test_resume_takes_an_engine(tmp_path, cluster, capsys):
    spec = make_spec(method="er", epochs=1, out=str(tmp_path / "run"))
    home = module.Home(spec, Origins()[spec])
    assert home.claim() is None
    home.take("events", (0, b""))
    home.close()
    main(["resume", str(tmp_path / "run"), "--engine", "ray"])
    assert "1 run in" in capsys.readouterr().out
    assert (tmp_path / "run" / "result.json").exists()
    assert cluster.started


def test_what_dead_slots_have_left_is_removed(own_slots):
    for name in ("dead", "held", "young"):
        (own_slots / f"tfcsr-slot-{name}").mkdir()
        (own_slots / f"tfcsr-slot-{name}" / "file").write_text("x")
    long_ago = time.time() - 1000
    with locked(own_slots / "tfcsr-slot-held"):
        for name in ("dead", "held"):
            module.os.utime(own_slots / f"tfcsr-slot-{name}", (long_ago, long_ago))
        slot.remove_dead()
    assert sorted(path.name for path in own_slots.iterdir()) == ["tfcsr-slot-held", "tfcsr-slot-young"]


def test_what_ray_costs_can_be_measured(cluster, monkeypatch):
    from benchmarks import engines

    monkeypatch.setattr(engines, "METHODS", ["finetune"])
    rows = {row["what"]: row["median"] for row in engines.measured(1, 2, 1)}
    assert rows["one Ray node / local"] > 0
    assert len(cluster.started) == 1


def test_engines_by_name():
    assert isinstance(engine_of("ray"), Ray)
    made = engine_of("local", 3)
    assert engine_of(made) is made
    with pytest.raises(SpecError, match="workers -1"):
        engine_of("ray", -1)
    specs = [make_spec(threads=1), make_spec(threads=2), make_spec(seed=3)]
    assert [len(group) for group in alike(specs)] == [2, 1]
