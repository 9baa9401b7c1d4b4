import json
import re
import shutil
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfcsr
from tests.conftest import make_spec
from tests.reporting.conftest import HOSTILE, change, one_run
from tfcsr.experiments.reading import Results
from tfcsr.experiments.result import Result
from tfcsr.experiments.statistics import estimate, paired_difference
from tfcsr.files import locked
from tfcsr.reporting import view
from tfcsr.reporting.report import ROOM
from tfcsr.reporting.series import COSTS
from tfcsr.reporting.view import class_names, document, thinned


def shown(folder, **options):
    results = Results(folder)
    results.look()
    return json.loads(document(results, **options))


def series(view, label):
    return next(one for group in view["groups"] for one in group["series"] if one["label"] == label)


def results_of(folder, method):
    files = sorted(folder.glob(f"{method}-seed*/result.json"))
    return [Result.from_dict(json.loads(file.read_text())) for file in files]


def rounded(value):
    low, high = (None if end is None else round(end, 2) for end in (value.low, value.high))
    return [round(value.mean, 2), low, high, value.n]


@given(st.lists(st.floats(0, 100), min_size=3, max_size=9))
def test_an_interval_is_as_wide_as_in_a_terminal(values):
    """It was wider or narrower by 0.01 where mean and end were rounded each by itself."""
    found = estimate(values)
    mean, low, high, _ = view._estimate(found)
    assert f"{mean:.2f} ±{high - mean:.2f}" == f"{mean:.2f} ±{mean - low:.2f}" == f"{mean:.2f} ±{found.half_width:.2f}"


def test_every_number_is_that_of_the_results(grid):
    view = shown(grid)
    er, best = series(view, "er, buffer_capacity 24"), series(view, "finetune")
    mine = results_of(grid, "finetune")
    base = [r for r in results_of(grid, "er") if r.spec["buffer_capacity"] == 24]
    assert best["accuracy"] == rounded(estimate([r.final_accuracy for r in mine]))
    difference = paired_difference(
        {r.spec["seed"]: r.final_accuracy for r in mine}, {r.spec["seed"]: r.final_accuracy for r in base}
    )
    assert best["difference"] == rounded(difference)
    assert view["groups"][0]["series"][best["against"]] == er
    for i in range(3):
        assert best["curve"][i] == rounded(estimate([r.accuracy_after_task[i] for r in mine]))
        for j in range(3):
            mean = sum(r.accuracy_matrix[i][j] for r in mine) / 2
            assert best["matrix"][i][j] == (pytest.approx(mean, abs=0.051) if j <= i else None)
    kept = best["retention"]
    assert kept["classes"] == [c for classes in mine[0].classes_per_task for c in classes]
    for label, task, row in zip(kept["classes"], kept["tasks"], kept["rows"], strict=True):
        for i, value in enumerate(row):
            mean = sum(r.class_accuracy[i][label] for r in mine) / 2
            assert value == (pytest.approx(mean, abs=0.51) if i + 1 >= task else None)
    for cost in COSTS:
        assert best["cost"][cost] == pytest.approx(sum(getattr(r, cost) for r in mine) / 2, abs=0.01)


def test_the_timeline_has_every_probe_with_what_it_found(grid):
    view = shown(grid)
    lines = view["groups"][0]["timelines"]
    assert [line["name"] for line in lines] == ["tfcsr, seed 0", "tfcsr, seed 1"]
    result = results_of(grid, "tfcsr")[0]
    events = [json.loads(line) for line in (one_run(grid) / "events.jsonl").read_text().splitlines()]
    found = [event for event in events if event["event"] == "probe"]
    line = lines[0]
    assert line["epochs"] == result.epochs_per_task
    assert line["threshold"] == 95
    for probe, event, i in zip(line["probes"], found, range(99), strict=False):
        at, task, epoch, recall, passed, due = probe
        assert (task, epoch, due) == (event["task"], event["epoch"], event["next_epoch"])
        assert at == 3 * (task - 1) + epoch
        assert recall == pytest.approx(event["recall"], abs=0.01)
        assert passed == int(event["passed"])
        for label, row in zip(line["per_class_names"], line["per_class"], strict=True):
            value = event["per_class"].get(str(label))
            assert row[i] == (None if value is None else pytest.approx(value, abs=0.51))
        for number, row in zip(line["per_task_names"], line["per_task"], strict=True):
            known = [event["per_class"].get(str(c)) for c in result.classes_per_task[number - 1]]
            known = [value for value in known if value is not None]
            assert row[i] == (pytest.approx(sum(known) / len(known), abs=0.51) if known else None)
    assert len(line["probes"]) == len(found) == result.memory_checks


def test_two_seeds_have_no_interval_either(grid):
    view = shown(grid)
    said = view["groups"][0]["summary"]
    first, second = said["sentences"]
    assert "10 complete runs" in first
    assert "2 seeds each" in first
    assert second.startswith("Against er, buffer_capacity 24, ")
    assert "too few seeds are shared to decide about joint and finetune" in second
    assert "tfcsr ends with its weights, bit for bit" in second
    assert "difference" not in second
    assert all(one["accuracy"][1:3] == [None, None] for one in view["groups"][0]["series"])
    assert not any("intervals" in line for line in said["beware"])


@pytest.fixture
def three_seeds(copy):
    """The grid with a third seed: a copy of the first that ends a little better."""
    for run in sorted(copy.glob("*-seed0-*")):
        more = copy / run.name.replace("-seed0-", "-seed2-")
        shutil.copytree(run, more)
        found = json.loads((run / "result.json").read_text())
        change(more / "spec.json", seed=2)
        change(more / "result.json", spec=found["spec"] | {"seed": 2}, final_accuracy=found["final_accuracy"] + 0.5)
    return copy


def test_the_words_say_no_more_than_the_intervals(three_seeds):
    view = shown(three_seeds)
    said = view["groups"][0]["summary"]
    first, second = said["sentences"]
    assert first.startswith("joint; ")
    assert "15 complete runs" in first
    found = {}
    for word in ("a difference was found for ", "one was found for ", "no difference was found for "):
        found[word] = second.partition(word)[2].partition(";")[0]
    for one in view["groups"][0]["series"]:
        if one["difference"] is None:
            assert f"for {one['label']}" not in second
        elif one["same_weights"]:
            assert f"{one['label']} ends with its weights" in second
        else:
            mean, low, high, _ = one["difference"]
            named = f"{one['label']} ({mean:+.2f})".replace("-", "\N{MINUS SIGN}")
            assert (named in found["a difference was found for "]) == (low > 0 or high < 0)
            assert (named in found["one was found for "] + found["no difference was found for "]) == (low <= 0 <= high)
    assert any("upper bound" in line for line in said["beware"])
    assert any("not corrected for being 2" in line for line in said["beware"])
    assert any("All seeds share class order 42" in line for line in said["beware"])


def test_the_reference_is_whom_others_stand_against(grid):
    (group,) = shown(grid)["groups"]
    assert [one["label"] for one in group["series"] if one["reference"]] == ["er, buffer_capacity 24"]
    places = {one["against"] for one in group["series"]} - {None}
    assert [group["series"][i]["reference"] for i in places] == [True]


def test_many_series_make_no_longer_a_sentence(made_up):
    (group,) = shown(made_up(75))["groups"]
    assert all(len(sentence) < 600 for sentence in group["summary"]["sentences"])
    assert group["summary"]["sentences"][1].startswith("Each against its own reference, ")
    assert " and 8 more " in group["summary"]["sentences"][0]


def test_one_series_over_class_orders_pairs_by_seed(copy):
    for file in copy.glob("*-seed1-*/result.json"):
        spec = json.loads(file.read_text())["spec"]
        change(file, spec=spec | {"class_order": 7}, classes_per_task=[[5, 4], [3, 2], [1, 0]])
    (group,) = shown(copy)["groups"]
    assert len(group["series"]) == 5
    for one in group["series"]:
        assert (one["accuracy"][3], one["orders"]) == (2, {"0": "42", "1": "7"})
        assert one["retention"]["seeds"] == 1  # of two: classes that come in another order have another map
    assert not any("class order" in line for line in group["summary"]["beware"])


def test_one_seed_has_no_interval_and_says_so(tmp_path):
    tfcsr.compare(
        benchmark="tiny", methods=["er", "finetune"], seeds=1, epochs=1, device="cpu", out=tmp_path, workers=1
    )
    view = shown(tmp_path)
    sentences = view["groups"][0]["summary"]["sentences"]
    assert "too few seeds are shared to decide about finetune" in sentences[1]
    assert "found" not in sentences[1]
    assert series(view, "er")["accuracy"][1:3] == [None, None]
    assert view["groups"][0]["timelines"] == []


def test_collapsed_runs_are_counted(copy):
    change(one_run(copy, "finetune") / "result.json", collapsed=2)
    view = shown(copy)
    assert series(view, "finetune")["collapsed"] == 1
    assert "1 of 2 runs of finetune collapsed" in view["groups"][0]["summary"]["beware"][0]


def test_one_run_of_one_task_alone(tmp_path):
    tfcsr.run(make_spec(method="er", epochs=1, tasks=1, out=str(tmp_path / "run")))
    view = shown(tmp_path / "run")
    (one,) = view["groups"][0]["series"]
    assert (one["forgetting"], len(one["matrix"])) == (None, 1)
    first, second = view["groups"][0]["summary"]["sentences"]
    assert first == "er learned tiny: 1 task with 6 classes in all, 1 seed (1 complete run)."
    assert "no difference is given" in second


def test_a_running_folder_shows_how_far_each_run_is(copy):
    folder = one_run(copy)
    (folder / "result.json").unlink()
    told = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    end = next(i for i, line in enumerate(told) if '"task_finished"' in line)
    (folder / "events.jsonl").write_text("".join(told[: end + 1]) + told[end + 1][:9])
    with locked(folder):
        view = shown(copy, live=True)
    assert view["counts"] == {"running": 1, "complete": 9}
    row = view["runs"][0]
    assert (row["state"], row["share"]) == ("running", pytest.approx(1 / 3, abs=0.01))
    assert row["words"].startswith("task 1 of 3, epoch 3 of 3, about 0 s left")
    assert "about" in view["headline"]
    assert [point and point[3] for point in series(view, "tfcsr")["curve"]] == [2, 1, 1]
    assert series(view, "tfcsr")["accuracy"][3] == 1
    running = next(line for line in view["groups"][0]["timelines"] if line["seed"] == 0)
    assert (running["state"], running["epochs"]) == ("running", [3, 3, 3])
    assert {probe[1] for probe in running["probes"]} == {1}


def test_a_large_seed_keeps_every_digit(copy):
    folder = one_run(copy, "joint")
    spec = json.loads((folder / "spec.json").read_text()) | {"seed": 2**63 - 1}
    change(folder / "result.json", spec=spec)
    assert "9223372036854775807" in {row.get("seed") for row in shown(copy)["runs"]}


def test_no_run_yet(tmp_path):
    view = shown(tmp_path, live=True)
    assert view["groups"] == view["runs"] == []
    assert "waits" in view["headline"]


def test_what_cannot_be_read_is_listed_in_words(copy):
    runs = sorted(path for path in copy.iterdir() if path.is_dir())
    (runs[0] / "result.json").write_text("{")
    (runs[1] / "result.json").unlink()
    (runs[1] / "spec.json").write_text("null")
    (runs[2] / "events.jsonl").unlink()
    (copy / "comparison.json").write_text(json.dumps({"errors": {"never-seed0": "no data", runs[3].name: "x"}}))
    (copy / "foreign").mkdir()
    (copy / "foreign" / "spec.json").write_bytes(b"\xff\x00")
    view = shown(copy)
    states = {row["name"]: (row["state"], row.get("words", "")) for row in view["runs"]}
    assert states[runs[0].name] == (
        "damaged",
        "result.json is damaged: it is not JSON; move its folder away to run again",
    )
    assert states[runs[1].name][0] == states["foreign"][0] == "damaged"
    assert states["never-seed0"] == ("failed", "no data")
    assert states[runs[3].name][0] == "complete"  # since then it went well
    assert view["counts"] == {"failed": 1, "damaged": 3, "complete": 8}


def test_no_name_can_be_taken_for_html(copy):
    folder = copy / "<img src=x onerror=alert(1)>"
    one_run(copy).rename(folder)
    spec = json.loads((folder / "spec.json").read_text()) | {"method": HOSTILE, "benchmark": HOSTILE, "policy": HOSTILE}
    change(folder / "result.json", spec=spec)
    results = Results(copy)
    results.look()
    text = document(results)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert text.isascii()
    view = json.loads(text)
    assert any(row["name"] == folder.name for row in view["runs"])
    assert [group["name"] for group in view["groups"]] == [HOSTILE.replace("\u2028", r"\u2028"), "tiny"]


def test_the_front_is_what_none_beats(made_up):
    view = shown(made_up(75))
    series = [one for one in view["groups"][0]["series"] if not one["upper_bound"]]
    for cost in COSTS:
        points = {one["label"]: (one["cost"][cost], one["accuracy"][0]) for one in series}
        front = {one["label"] for one in series if cost in one["front"]}
        assert front
        for label, (price, good) in points.items():
            beaten = any(p <= price and g >= good and (p, g) != (price, good) for p, g in points.values())
            assert (label in front) == (not beaten)


def test_the_upper_bound_is_not_in_the_race(grid):
    joint = series(shown(grid), "joint")
    assert joint["upper_bound"]
    assert joint["front"] == []


@pytest.mark.parametrize(("runs", "tasks", "classes"), [(150, 10, 100), (10, 300, 300)])
def test_there_is_room_for_the_largest(made_up, runs, tasks, classes):
    folder = made_up(runs, tasks, classes, probes=2 if tasks > 100 else 5)
    results = Results(folder)
    results.look()
    started = time.monotonic()
    text = document(results, room=ROOM)
    assert time.monotonic() - started < 20
    assert len(text) <= ROOM
    view = json.loads(text)
    assert sum(len(group["series"]) for group in view["groups"]) == (13 if runs > 10 else 9)  # finetune has no buffer
    assert len(view["runs"]) == runs
    assert any(line.get("per_class") for line in view["groups"][0]["timelines"])
    assert view["left_out"]


def test_with_little_room_less_is_shown_and_that_is_said(grid):
    whole, little = shown(grid), shown(grid, room=9_000)
    assert whole["left_out"] == []
    assert little["left_out"]
    assert len(json.dumps(little)) < len(json.dumps(whole))
    assert little["groups"][0]["series"]


@pytest.mark.parametrize(("count", "most"), [(0, 5), (1, 1), (5, 5), (6, 5), (1000, 50), (3, 1)])
def test_thinning_keeps_both_ends(count, most):
    places = thinned(count, most)
    assert len(places) <= max(most, 2)
    assert places == sorted(set(places))
    if count:
        assert (places[0], places[-1]) == (0, count - 1)


def test_a_damaged_history_of_a_complete_run_costs_only_what_it_knew(copy):
    (one_run(copy) / "events.jsonl").write_bytes(b"\x00\xff\n" * 50)
    line = next(line for line in shown(copy)["groups"][0]["timelines"] if line["seed"] == 0)
    assert line["probes"]
    assert "per_class" not in line


def test_folders_can_be_mixed(copy, made_up):
    shutil.copytree(made_up(75), copy, dirs_exist_ok=True)
    view = shown(copy)
    assert [(group["name"], len(group["series"])) for group in view["groups"]] == [("split-cifar100", 13), ("tiny", 5)]


NAMES = ["t-shirt", "trouser", "bag", "bag", "", "x" * 10_000]


def name_classes(folder, names=NAMES):
    for file in folder.glob("*/result.json"):
        change(file, class_names=names)


def test_classes_have_their_names(copy):
    name_classes(copy)
    (group,) = shown(copy)["groups"]
    called = {"0": "t-shirt", "1": "trouser", "2": "bag (class 2)", "3": "bag (class 3)", "5": "x" * 39 + "…"}
    assert group["names"] == [called]  # once for all, and none for what has none
    assert [one["retention"]["names"] for one in group["series"]] == [0] * 5
    assert [line["names"] for line in group["timelines"]] == [0] * 2
    assert set(group["series"][0]["retention"]["classes"]) == set(range(6))


def test_names_of_a_run_under_way_are_in_its_events(copy):
    folder = one_run(copy)
    (folder / "result.json").unlink()
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    lines[0] |= {"class_names": NAMES}
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (group,) = shown(copy)["groups"]
    (line,) = (line for line in group["timelines"] if line["state"] == "stopped")
    assert group["names"][line["names"]]["1"] == "trouser"


@pytest.mark.parametrize("names", [[], list("012345"), ["0"]])
def test_names_that_are_numbers_say_nothing(copy, names):
    name_classes(copy, names)
    (group,) = shown(copy)["groups"]
    assert group["names"] == []
    assert [one["retention"]["names"] for one in group["series"]] == [None] * 5


def test_names_that_are_other_numbers_are_called_classes():
    assert class_names(["0", "1", "10", "2"]) == {0: "class 0", 1: "class 1", 2: "class 10", 3: "class 2"}
    assert class_names(["0", "1", "x"]) == {0: "0", 1: "1", 2: "x"}


def test_runs_with_other_names_keep_them_apart(copy):
    name_classes(copy)
    for seed in (0, 1):
        change(one_run(copy, "joint", seed) / "result.json", class_names=list("uvwxyz"))
    view = shown(copy)
    places = {one["label"]: one["retention"]["names"] for one in view["groups"][0]["series"]}
    assert view["groups"][0]["names"][places["joint"]]["0"] == "u"
    assert view["groups"][0]["names"][places["tfcsr"]]["0"] == "t-shirt"


def test_no_name_of_a_class_can_be_taken_for_html(copy):
    name_classes(copy, [HOSTILE, "\u202egab", "\ud800", *"abc"])
    results = Results(copy)
    results.look()
    text = document(results)
    assert not re.search("[<>&\u2028\u2029\u202e]", text)
    assert json.loads(text)["groups"][0]["names"][0]["1"] == r"\u202egab"
