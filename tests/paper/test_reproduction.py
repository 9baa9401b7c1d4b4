"""Reproducing the paper on tiny data: what runs, what is shared, what is kept, and what is said of it."""

import dataclasses
import json
import math
import statistics

import pytest
import torch
from scipy import stats

from tests.conftest import make_spec
from tfcsr.errors import OutputError, SpecError
from tfcsr.experiments import compare, expected
from tfcsr.experiments.machine import environment
from tfcsr.experiments.record import Record, Records, question
from tfcsr.experiments.result import Result
from tfcsr.experiments.run import run
from tfcsr.experiments.statistics import fit_probability, prediction_interval
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.experiments.study import run_missing
from tfcsr.paper import reproduction
from tfcsr.paper.audit import audit, two_protocols
from tfcsr.paper.dense import dense
from tfcsr.paper.published import ARMS, PUBLISHED, TARGETS
from tfcsr.paper.reproduction import Choice, Reproduction, open_study, verdict
from tfcsr.spec import RunSpec
from tfcsr.training import loop


def tiny(targets, out, seeds=2, also=(), **more):
    study = open_study(targets, seeds=seeds, out=out, data="tiny", also=also)
    return study, run_missing(study, out, device="cpu", workers=1, **more)


def test_prediction_interval_and_probability_agree_with_scipy():
    values = [12.1, 13.4, 11.9, 13.0, 12.6]
    n, mean, s = 5, statistics.fmean(values), statistics.stdev(values)
    spread = s * math.sqrt(1 + 1 / n)
    assert prediction_interval(values) == pytest.approx(stats.t.interval(0.95, n - 1, mean, spread))
    for value in (7.4, 12.0, 13.17):
        tail = 2 * stats.t.sf(abs(value - mean) / spread, n - 1)
        assert fit_probability(value, values) == pytest.approx(tail)
    assert prediction_interval([1.0]) is None
    assert fit_probability(3.0, [3.0, 3.0]) == 1.0
    assert fit_probability(3.1, [3.0, 3.0]) == 0.0


def test_the_rule_of_the_verdict():
    values = [12.1, 13.4, 11.9, 13.0, 12.6]
    low, high = prediction_interval(values)
    assert verdict(high, values) == verdict(low, values) == "consistent"
    assert verdict(high + 0.01, values) == verdict(low - 0.01, values) == "not consistent"
    assert verdict(None, values) == ""
    assert verdict(12.0, [12.0]).startswith("open")
    assert verdict(12.0, []).startswith("open")
    assert verdict(15_800, [15_800.0] * 3) == "consistent"  # a count that never varies
    assert verdict(15_799, [15_800.0] * 3) == "not consistent"


def test_the_verdict_and_the_probability_are_one_rule():
    values = [12.1, 13.4, 11.9, 13.0, 12.6]
    for published in (7.4, 10.5, 10.9, 11.0, 12.6, 14.0, 14.5, 20.0):
        assert (verdict(published, values) == "consistent") == (fit_probability(published, values) >= 0.05)


def test_runs_shared_between_targets_run_once(tmp_path):
    begun = []
    watcher = lambda spec, news: begun.append(spec.key()) if isinstance(news, Result) else None  # noqa: E731
    study, errors = tiny(["table-a1", "fig-a1", "table3"], tmp_path, watcher=watcher)
    assert not errors
    assert len(begun) == len(set(begun)) == 2 * 3
    assert len(study.records.runs) == 6
    checks = {line.label: line.values for line in study.lines(TARGETS["table-a1"]) if line.quantity == "memory_checks"}
    assert sum(checks["threshold 99 %"]) > sum(checks["threshold 10 %"])
    accuracies = {tuple(line.values) for line in study.lines(TARGETS["table-a1"]) if line.quantity == "final_accuracy"}
    assert len(accuracies) == 1  # one training, seven schedules


def test_each_threshold_is_what_its_own_run_would_have_given(tmp_path):
    study, _ = tiny(["table-a1"], tmp_path, seeds=1)
    for threshold in (10, 99):
        alone = Record.of(
            run(ARMS[f"cifar/threshold-{threshold}/augmented"].spec(0, "tiny").replace(device="cpu", threads=1))
        )
        (read_off,) = study.of(f"cifar/threshold-{threshold}/augmented").values()
        assert (read_off.probes, read_off.weights_sha256) == (alone.probes, alone.weights_sha256)


def test_complete_runs_are_not_run_again(tmp_path):
    tiny(["fig-b1"], tmp_path / "first")

    def refuse(spec, news):
        raise AssertionError(spec.name())

    study, _ = tiny(["fig-b1"], tmp_path / "first", watcher=refuse)
    assert not study.missing()
    # Its records alone are enough, also elsewhere.
    study, _ = tiny(["fig-b1"], tmp_path / "second", also=[tmp_path / "first" / "results.json"], watcher=refuse)
    assert len(study.records.runs) == 2 * 4
    study, _ = tiny(["fig-b1"], tmp_path / "third", also=[tmp_path / "first" / "runs"], watcher=refuse)
    assert len(study.records.runs) == 2 * 4


def test_an_interrupted_reproduction_goes_on_where_it_stopped(tmp_path):
    stop, done = Stop(), []

    def after_three(spec, news):
        if isinstance(news, Result):
            done.append(spec.key())
            if len(done) == 3:
                stop.request()

    with pytest.raises(Interrupted):
        tiny(["fig1"], tmp_path, watcher=after_three, stop=stop)
    kept = Records.read(tmp_path / "results.json")
    assert len(kept.runs) == 3
    assert [session["runs"] for session in kept.sessions] == [3]
    study, _ = tiny(
        ["fig1"], tmp_path, watcher=lambda spec, news: done.append(spec.key()) if isinstance(news, Result) else None
    )
    assert len(done) == len(set(done)) == 2 * 5
    assert not study.missing()
    assert [session["runs"] for session in study.records.sessions] == [3, 7]


def test_only_one_benchmark_may_be_run(tmp_path):
    study = open_study(["all"], seeds=1, out=tmp_path)
    mnist, cifar = study.missing("split-mnist"), study.missing("split-cifar100")
    assert {spec.benchmark for spec in mnist} == {"split-mnist"}
    assert len(mnist) + len(cifar) == len(study.missing()) == len(study.plan())
    with pytest.raises(SpecError, match="none of these runs is on it, but on split-cifar100, split-mnist"):
        study.missing("split-digits")


def test_a_failed_run_is_said_and_the_others_are_kept(tmp_path, monkeypatch):
    arm = ARMS["mnist/ewc"]
    broken = {**ARMS, "mnist/ewc": dataclasses.replace(arm, fields={**arm.fields, "model": "exploding"})}
    monkeypatch.setattr(reproduction, "ARMS", broken)
    study, errors = tiny(["fig1"], tmp_path, seeds=1)
    assert len(errors) == 1
    assert "ewc" in next(iter(errors))
    assert len(study.records.runs) == 4
    assert len(study.missing()) == 1


def test_published_numbers_stand_only_beside_the_papers_data(tmp_path):
    study, _ = tiny(["table2"], tmp_path, seeds=1)
    assert all(line.published is None and line.verdict == "" for line in study.lines(TARGETS["table2"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": ["fig9"]}, "unknown target 'fig9'"),
        ({"seeds": 0}, r"seeds \[\]"),
        ({"seeds": [1, 1]}, "each once"),
        ({"data": "nope"}, "unknown data 'nope': use one of"),
        ({"also": ["nowhere.json"]}, "also nowhere.json: there is nothing"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, arguments, message):
    with pytest.raises(SpecError, match=message):
        open_study(**{"targets": ["fig1"], "out": tmp_path / "out"} | arguments)
    assert not (tmp_path / "out").exists()


def test_damaged_results_are_refused(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"runs": 3}))
    with pytest.raises(OutputError, match=r"results\.json does not hold results"):
        open_study(["fig1"], out=tmp_path)


def invented(arm: str, seed: int, final: float, **fields) -> Record:
    """A record as if that arm had been run on the paper's data."""
    spec = ARMS[arm].spec(seed)
    holder = spec if ARMS[arm].alone else dense(spec)
    curve = [final + 10.0 * i for i in range(spec.tasks)][::-1]
    probes = [[t, e, 100.0] for t in range(1, spec.tasks + 1) for e in range(1, spec.epochs + 1)]
    values = {"replay_batches": 15_800, "optimizer_steps": 15_800, "epochs_per_task": [spec.epochs] * spec.tasks}
    rest = {"held_out_accuracy": None, "seconds": 20.0, "collapsed": None, "weights_sha256": f"{arm} {seed}"}
    environment = {"gpu": "a card", "torch": "2"}
    probed = {"probes": probes if holder.method == "tfcsr" else []}
    record = {"accuracy_after_task": curve, "spec": holder.to_dict(), "environment": environment}
    return Record(**record | values | rest | probed | fields)


def study_of(*records: Record, seeds: int = 5) -> Reproduction:
    return Reproduction(["all"], range(seeds), None, Records(list(records)))


def test_a_published_value_changed_by_hand_changes_its_verdict(monkeypatch):
    finals = [13.0, 12.4, 13.9, 13.3, 12.9]
    study = study_of(*(invented("cifar/tfcsr-1000/augmented", s, f) for s, f in enumerate(finals)))

    def line():
        return next(x for x in study.lines(TARGETS["table3"]) if x.label == "TFC-SR" and x.quantity == "final_accuracy")

    assert (line().published, line().verdict) == (13.17, "consistent")
    curve = PUBLISHED["cifar/tfcsr-1000"].curve
    changed = dataclasses.replace(PUBLISHED["cifar/tfcsr-1000"], curve=(*curve[:-1], 20.0))
    monkeypatch.setitem(PUBLISHED, "cifar/tfcsr-1000", changed)
    assert (line().published, line().verdict) == (20.0, "not consistent")
    checks = next(x for x in study.lines(TARGETS["table3"]) if x.label == "TFC-SR" and x.quantity == "memory_checks")
    assert (checks.values, checks.verdict) == ([50.0] * 5, "consistent")


def test_the_audit_finds_which_protocol_fits():
    records = [invented("cifar/er-1000/plain", s, f) for s, f in enumerate([7.0, 7.3, 7.6, 7.8, 7.2])]
    records += [invented("cifar/er-1000/augmented", s, f) for s, f in enumerate([13.0, 13.3, 13.6, 13.8, 13.2])]
    # Whole curves like the published ones, so that only the end decides.
    published = PUBLISHED["cifar/er-1000"].curve
    records = [
        dataclasses.replace(r, accuracy_after_task=[*published[:-1], r.accuracy_after_task[-1]]) for r in records
    ]
    finding = two_protocols(study_of(*records))
    row = next(row for row in finding.rows if row[0] == "er-1000")
    assert row[-1] == "plain"
    assert row[3] == "< 0.001"
    assert any("+6.00 ± 0.00 points" in sentence for sentence in finding.said)
    assert any("+5.77" in sentence for sentence in finding.said)


@pytest.mark.parametrize(
    ("plain", "augmented", "fits"),
    [
        (0.0, 0.0, "both"),
        (9.0, 0.0, "augmented"),
        (9.0, 2.0, "neither, nearer augmented"),
        (3.0, 9.0, "neither, nearer plain"),
    ],
)
def test_the_audit_says_of_a_row_that_fits_neither_which_is_nearer(plain, augmented, fits):
    published = PUBLISHED["cifar/er-1000"].curve
    records = [
        dataclasses.replace(
            invented(f"cifar/er-1000/{protocol}", seed, 0.0),
            accuracy_after_task=[*published[:-1], published[-1] + off + (seed - 2) / 5],
        )
        for protocol, off in (("plain", plain), ("augmented", augmented))
        for seed in range(5)
    ]
    finding = two_protocols(study_of(*records))
    assert next(row for row in finding.rows if row[0] == "er-1000")[-1] == fits
    assert f"Fits {fits}: er-1000." in finding.said


def test_the_audit_without_runs_says_nothing():
    assert all(not finding.said for finding in audit(study_of()))


def test_the_audit_notices_weights_that_differ():
    alone = [invented(f"cifar/{m}/alone", 0, 13.0, weights_sha256=w) for m, w in (("er", "a"), ("tfcsr", "b"))]
    finding = audit(study_of(*alone))[0]
    assert finding.said == [
        "In 0 of 1 pairs of runs, TFC-SR and ER with one seed ended in the same weights, bit for bit."
    ]
    assert finding.rows[0][-2:] == ("no", "–")


def test_a_probe_is_compared_with_none_on_one_machine_only():
    def records(**other):
        pairs = [("cifar/er-1000/augmented", {}), ("cifar/probe-placebo", other)]
        return [invented(arm, s, 13.0 + s, **fields) for arm, fields in pairs for s in range(3)]

    there = {"gpu": "another card", "torch": "2"}
    assert "+0.00 ± 0.00 points, n 3" in audit(study_of(*records()))[1].said[0]
    assert (
        "+0.00 ± 0.00 points, n 3"
        in audit(study_of(*records(environment={"gpu": "a card", "torch": "2", "cores": 3})))[1].said[0]
    )
    assert audit(study_of(*records(environment=there)))[1].said == []


def test_a_probe_that_changed_nothing_and_one_that_did_are_told_apart():
    none = [invented("cifar/er-1000/augmented", s, 13.0 + s) for s in range(3)]
    train = [invented("cifar/probe-train", s, 13.0 + s) for s in range(3)]
    placebo = [invented("cifar/probe-placebo", s, 14.0 + s + s / 10) for s in range(3)]
    said = audit(study_of(*none, *train, *placebo))[1].said
    assert said[0].startswith("Split CIFAR-100, train mode: after every task exactly the accuracy of no probe (+0.00")
    assert said[1].startswith("Split CIFAR-100, placebo: differs from no probe (+1.10 ± 0.25")
    assert "running averages" in said[2]
    # The same end, another way there.
    train[1].accuracy_after_task[0] += 1.0
    assert "train mode: no difference was found" in audit(study_of(*none, *train))[1].said[0]


def test_what_choosing_on_the_test_set_was_worth():
    grid = reproduction.GRIDS["cifar/ewc"]
    finals = {1e3: (6.0, 5.0), 1e4: (7.0, 4.0), 1e5: (5.5, 6.0)}
    runs = {
        value: [invented(grid.arm(value), 0, test, held_out_accuracy=held_out)]
        for value, (test, held_out) in finals.items()
    }
    choice = Choice(grid, runs)
    assert (choice.by_test, choice.by_held_out, choice.worth) == (1e4, 1e5, 1.5)
    assert choice.complete
    assert not Choice(grid, runs | {1e3: []}).complete


def test_a_choice_is_made_over_the_seeds_that_every_value_was_tried_with():
    grid = reproduction.GRIDS["mnist/si"]
    records = [invented(grid.arm(value), seed, 20.0 + seed) for value in grid.values for seed in range(3)]
    study = study_of(*records[:-1])  # the last value lacks its last seed
    (choice,) = study.choices(["mnist/si"])
    assert [len(runs) for runs in choice.runs.values()] == [2] * 4
    assert {choice.test_accuracy(value) for value in grid.values} == {20.5}


def test_expected_steps_are_the_papers():
    assert expected.expected_steps(ARMS["cifar/er-1000/plain"].spec(0)) == 15_800
    assert expected.expected_steps(ARMS["cifar/mgp/plain"].spec(0)) == 39_500


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "finetune"},
        {"method": "finetune", "held_out": 0.25},
        {"method": "finetune", "max_per_class": 8},
        {"method": "er", "new_data": "half"},
        {"method": "er", "new_data": "all"},
        {"method": "er", "new_data": "all", "replay_per_batch": 4},
        {"method": "joint"},
        {"method": "joint", "joint_epoch": "newest"},
        {"method": "finetune", "repeat": 0.5},
        {"method": "er", "steps": 7},
        {"method": "finetune", "scenario": "domain"},
    ],
)
def test_expected_steps_are_those_of_the_run(fields):
    spec = make_spec(epochs=2, **fields)
    assert expected.expected_steps(spec) == run(spec.replace(device="cpu", threads=1)).optimizer_steps


def here() -> dict[str, object]:
    return environment(make_spec(device="cpu"))


def test_expected_seconds_follow_finished_runs_of_this_machine(monkeypatch):
    specs = [dense(ARMS["cifar/er-1000/plain"].spec(seed)) for seed in range(4)]
    record = invented("cifar/tfcsr-1000/augmented", 0, 13.0, seconds=158.0)
    spec = RunSpec.from_dict(record.spec).replace(device="cpu")
    record = dataclasses.replace(record, spec=spec.to_dict(), environment=here())
    seconds, source = expected.expected_seconds(study_of(record), specs, "cpu", 2)
    assert (seconds, source) == (pytest.approx(expected.START_SECONDS + 4 * 158 / 2), "finished runs")
    # Three runs in two places take as long as four.
    assert expected.expected_seconds(study_of(record), specs[:3], "cpu", 2)[0] == seconds
    # What another machine took says nothing.
    monkeypatch.setattr(expected, "_has_data", lambda spec: False)
    monkeypatch.setattr(expected, "seconds_a_step", lambda spec: 1.0)
    other = dataclasses.replace(record, environment=here() | {"processor": "another"})
    seconds, source = expected.expected_seconds(study_of(other), specs, "cpu", 2)
    assert seconds == pytest.approx(expected.START_SECONDS + 2 * 15_800)
    assert source.endswith("without the data: it will be more")


def test_runs_on_small_images_do_not_judge_those_on_large_ones(monkeypatch):
    """The same network and method: a run of digits takes a fiftieth of the time a step takes elsewhere."""
    monkeypatch.setattr(expected, "_has_data", lambda spec: False)
    monkeypatch.setattr(expected, "seconds_a_step", lambda spec: 1.0)
    small = make_spec(benchmark="split-digits", method="er", model="cnn", device="cpu", threads=1)
    record = dataclasses.replace(invented("cifar/tfcsr-1000/augmented", 0, 13.0), spec=small.to_dict())
    record = dataclasses.replace(record, seconds=0.01 * record.optimizer_steps, environment=here())
    large = make_spec(benchmark="split-mnist", method="er", model="cnn", max_per_class=64, epochs=1)
    each = expected.expected_steps(large)
    assert expected.expected_seconds(study_of(record), [large], "cpu", 1)[0] == pytest.approx(each)
    both, source = expected.expected_seconds(study_of(record), [large, small], "cpu", 1)
    assert both == pytest.approx(each + 0.01 * expected.expected_steps(small))
    assert source.startswith("finished runs and ")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_bare_steps_have_the_precision_of_the_runs(monkeypatch, precision):
    seen = []

    class Watching(torch.nn.Linear):
        def forward(self, x):
            found = super().forward(x.flatten(1))
            seen.append(found.dtype)
            return found

    monkeypatch.setattr(loop, "build_model", lambda spec, shape, classes: Watching(math.prod(shape), classes))
    spec = make_spec(benchmark="split-digits", device="cpu", threads=1, precision=precision)
    assert expected.seconds_a_step(spec) > 0
    assert set(seen) == {torch.bfloat16 if precision == "bf16" else torch.float32}


def test_runs_are_packed_as_workers_take_them():
    assert expected.span([3.0, 3.0, 3.0], 2) == 6.0
    assert expected.span([1.0, 1.0, 5.0], 2) == 6.0
    assert expected.span([2.0] * 4, 1) == 8.0
    assert expected.span([], 3) == 0.0


def trial_of(monkeypatch, events):
    """A trial whose runs do as they are told: `events` are seconds, the number of the run, and what it says."""
    clock = [100.0]

    def execute(specs, workers, watcher):
        for seconds, number, event in events:
            clock[0] = 100.0 + seconds
            watcher(specs[number], event)

    monkeypatch.setattr(compare, "execute", execute)
    monkeypatch.setattr(expected.time, "monotonic", lambda: clock[0])
    specs = [make_spec(method=method, out="x") for method in ("er", "finetune")]
    return expected._tried(specs, specs, 2)


def step(number):
    return {"event": "step", "step": number, "steps": 50}


def test_a_trial_measures_the_rate_and_the_start(monkeypatch):
    begun = {"event": "run_started"}
    # 3 s until both have begun; then 10 steps a second, and 5.
    told = [(3.0, 0, begun), (3.0, 1, begun), (3.5, 0, step(1)), (3.5, 1, step(1))]
    told += [(5.5, 0, step(21)), (5.5, 1, step(11)), (6.5, 0, {"event": "epoch_finished", "optimizer_steps": 31})]
    told += [(8.5, 0, step(20)), (8.5, 1, step(26))]
    trial = trial_of(monkeypatch, told)
    assert trial.start == 3.0
    er, finetune = (expected.kind_of(make_spec(method=method)) for method in ("er", "finetune"))
    assert trial.rates == {er: pytest.approx(5 / 50), finetune: pytest.approx(5 / 25)}
    # What comes after the trial's end does not count, but for the moment it ends in.
    late = [(9.5, 0, step(30)), (90.0, 0, step(31)), (90.0, 1, step(27))]
    assert trial_of(monkeypatch, [*told, *late]).rates[finetune] == pytest.approx(5 / 25)


def test_a_run_that_had_hardly_begun_does_not_decide(monkeypatch):
    told = [(1.0, 0, step(1)), (4.0, 0, step(31)), (4.0, 1, step(1)), (4.9, 1, step(2))]
    trial = trial_of(monkeypatch, told)
    assert list(trial.rates.values()) == [pytest.approx(0.1)] * 2


def test_a_trial_ends_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(expected, "TRIAL_SECONDS", 0.0)
    spec = make_spec(method="er", epochs=10_000, out=str(tmp_path / "run"), device="cpu", threads=1)
    trial = expected._tried([spec], [spec], 1)
    assert trial.start >= 0
    assert not list(tmp_path.iterdir())


def test_on_a_gpu_sessions_tell_all_that_they_took():
    record = invented("cifar/tfcsr-1000/augmented", 0, 13.0)
    study = study_of(record)
    study.records.sessions.append({"machine": record.environment, "seconds": 40.0, "runs": 1})
    specs = [ARMS["cifar/er-1000/plain"].spec(seed) for seed in range(3)]
    assert expected._on_gpu(study, specs, {"gpu": "a card"}) == (pytest.approx(3 * 40.0), "finished sessions")
    seconds, source = expected._on_gpu(study, specs, {"gpu": "another"})
    assert seconds == pytest.approx(3 * 15_800 * expected.GPU_SECONDS["resnet18"] + expected.COMPILE_SECONDS)
    assert source == "an H200"


def test_arms_answer_different_questions():
    """Two arms of one name apart would silently share their runs."""
    seen: dict[object, str] = {}
    same = {"threshold-10", "tfcsr-1000"}
    for name, arm in ARMS.items():
        key = (question(arm.spec(0)), arm.alone)
        if key in seen:
            assert {name.split("/")[1], seen[key].split("/")[1]} == same, (name, seen[key])
        seen[key] = name
