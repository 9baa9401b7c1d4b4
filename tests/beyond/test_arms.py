"""The runs behind our own claims: how many, each once, with the paper's budget, and controls that match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.beyond.invented import fill, plausible, record_of, study_of
from tfcsr.beyond.arms import (
    ADAPTIVE,
    ARMS,
    EPOCHS,
    IN_FIELD,
    IN_FULL,
    LISTED,
    LONG_WITH_CNN,
    NAMES,
    OF_METHOD,
    OURS,
    RECIPE,
    REPLAYING,
    SECTIONS,
    SMALL,
    SPACED,
    SPACED_LONG,
    WHEN,
    WHEN_LONG,
    partner,
    random_epochs,
    spread_epochs,
)
from tfcsr.beyond.study import mixed_epochs
from tfcsr.errors import SpecError
from tfcsr.experiments.record import question
from tfcsr.experiments.study import arms_of, section_of
from tfcsr.methods.base import is_listed
from tfcsr.recall.schedule import SCHEDULES

OWN_WAY = {"er": "every", "er-ace": "every", OURS: "spaced"}
SHARED = {f"accuracy/{method}": f"frontier/{method}/{when}" for method, when in OWN_WAY.items()} | {
    f"elsewhere/cnn/{method}": f"elsewhere/cnn/frontier/{method}/{when}" for method, when in OWN_WAY.items()
}
IMAGES = ("ablation/strong", "ablation/cutmix")  # small benchmarks have no augmentation, and CutMix is part of it
AT_THE_PAPERS_BUDGET = ("accuracy", "frontier", "adapting", "exam", "ablation", "policies", "choices")


def test_every_arm_is_in_a_section_and_every_section_has_arms():
    assert {section_of(name) for name in ARMS} == set(SECTIONS)


def test_the_plan_has_every_run_once():
    waiting = [name for name, arm in ARMS.items() if arm.matches]
    sections = ("adapting", *(f"small/{small}/adapting" for small in SMALL))
    twins = [f"{name}/fixed" for name in ADAPTIVE] + ["sm2/yoked", "fsrs/yoked"]
    squared = [f"small/{small}/squared/{twin}" for small in SMALL for twin in ("yoked", "fixed")]
    assert sorted(waiting) == sorted([f"{section}/{twin}" for section in sections for twin in twins] + squared)

    def expected(seeds):
        each = {name: min(seeds, arm.seeds or seeds) * arm.times for name, arm in ARMS.items() if name not in waiting}
        return sum(each.values()) - sum(each[name] for name in SHARED)

    assert len(study_of().plan()) == len(study_of().missing()) == expected(5)
    # With fewer seeds an arm of fewer has the first of them; with more, one that has no number of its own has all.
    few = study_of(seeds=2)
    assert len(few.plan()) == expected(2)
    assert {spec.seed for spec in few.plan() if spec.epochs * spec.tasks != 100} == {0, 1, 100}
    assert [len(few.specs(f"small/{small}/whole")) for small in SMALL] == [12, 4]
    assert list(few.specs("small/digits/whole")) == list(range(12))
    many = study_of(seeds=8)
    assert [len(many.specs(name)) for name in ("accuracy/er", "field/2000/every", "choices/as it is")] == [8, 3, 1]


def test_two_arms_are_one_run_only_where_it_is_meant():
    study, seen = study_of(), {}
    for name in ARMS:
        for spec in study.specs(name).values():
            seen.setdefault(question(spec), []).append(name)
    assert {tuple(names) for names in seen.values() if len(names) > 1} == set(SHARED.items())


def test_what_is_done_is_not_wanted_again_and_the_twins_come_then():
    study = fill(study_of(sections=["adapting"], seeds=2), plausible, seeds=2)
    assert not study.missing()
    # Three twins may be one run: all of these replay in five epochs. So may two that are yoked, of seed 0 alone: what
    # seed 1 would go by is not there.
    assert len(study.plan()) == 2 * len(ADAPTIVE) + 2 + 1
    assert all(study.of(f"adapting/{name}/fixed").keys() == {0, 1} for name in ADAPTIVE)
    assert all(study.of(f"adapting/{name}/yoked").keys() == {0} for name in ("sm2", "fsrs"))


def test_a_yoked_run_replays_when_the_run_of_another_seed_did():
    study = study_of(sections=["adapting"])
    for seed, spec in study.specs("adapting/fsrs").items():
        probes = [[1, 1, 99.0], [2, 1, 80.0], [2, 4 + seed, 70.0], [10, 20, 60.0]]
        study.add(record_of(spec, 50.0, probes=probes))
    found = {seed: spec.replay_epochs for seed, spec in study.specs("adapting/fsrs/yoked").items()}
    nothing = "/none" * 7
    assert found == {seed: f"1/1,{4 + (seed + 1) % 5}{nothing}/20" for seed in range(5)}
    # On the whole as much is replayed: every run's epochs are used once.
    assert sorted(map(partner, range(30))) == list(range(30))
    assert all(partner(seed) not in (seed, partner(partner(seed))) for seed in range(30))


def test_the_papers_spaced_replay_is_held_against_er_with_other_epochs():
    """It replays from the second task on, and so do they."""
    study = study_of(sections=["small"])
    for seed, spec in study.specs("small/mnist/squared/own").items():
        probes = [[2, 1, 80.0], [2, 4 + seed, 70.0], [5, 20, 60.0]]
        steps = record_of(spec, 50.0).optimizer_steps
        replayed = 3 * steps // (spec.epochs * spec.tasks) * 32 * 4  # three epochs of each task but the first
        study.add(record_of(spec, 50.0, probes=probes, replayed=replayed))
    found = {arm: study.specs(f"small/mnist/squared/{arm}") for arm in ("yoked", "fixed", "every")}
    assert {spec.method for specs in found.values() for spec in specs.values()} == {"er"}
    yoked = {seed: spec.replay_epochs for seed, spec in found["yoked"].items()}
    assert yoked == {seed: f"none/1,{4 + partner(seed)}/none/none/20" for seed in range(10)}
    assert {spec.replay_epochs for spec in found["fixed"].values()} == {f"none/{spread_epochs(3)}"}
    assert {spec.replay_epochs for spec in found["every"].values()} == {"all"}


def test_the_same_replay_is_placed_in_six_ways():
    """Twenty epochs of the four tasks that have something to replay."""
    for small in SMALL:
        for when, (_, listed) in LISTED.items():
            spec = ARMS[f"small/{small}/timing/{when}"].spec(0)
            assert spec.replay_epochs == listed
            assert (spec.tasks, spec.epochs, spec.exam_share, spec.replay_least) == (5, 20, 0.1, 0)
            assert sum(is_listed(listed, task, epoch) for task in range(2, 6) for epoch in range(1, 21)) == 20


@pytest.mark.parametrize("small", SMALL)
def test_a_small_benchmark_is_asked_the_same_questions(small):
    """Each arm differs from its own whole as that of the paper's budget does from its."""

    def changed(arm, whole):
        one, other = (ARMS[name].spec(0).to_dict() for name in (arm, whole))
        return {field: value for field, value in one.items() if other.get(field) != value}

    at = f"small/{small}"
    for section in ("ablation", "policies"):
        for name in ARMS:
            if name.startswith(f"{section}/") and "herded" not in name and name not in IMAGES:
                assert changed(f"{at}/{name}", f"{at}/whole") == changed(name, f"accuracy/{OURS}") != {}, name
    assert changed(f"{at}/ablation/exam", f"{at}/whole") == changed(f"exam/{OURS}", f"accuracy/{OURS}")
    assert not {f"{at}/{name}" for name in IMAGES} & ARMS.keys()
    for method in REPLAYING:
        whole = f"{at}/frontier/{method}/every"
        for when in WHEN:
            arm = f"{at}/frontier/{method}/{when}"
            assert changed(arm, whole).keys() <= {"replay_epochs", *WHEN[when][1]}
            placed, like = ARMS[arm].spec(0), ARMS[f"frontier/{method}/{when}"].spec(0)
            listed = SPACED if when == "spaced" else like.replay_epochs  # which ours does by itself
            assert placed.replay_epochs == listed
            assert (placed.unmixed, placed.replay_per_batch) == (like.unmixed, like.replay_per_batch)
            assert placed.get("replay_least", 0) == 0


@pytest.mark.parametrize("section", AT_THE_PAPERS_BUDGET)
def test_the_budget_is_the_papers(section):
    study = fill(study_of(sections=[section], seeds=1), plausible, seeds=1) if section == "adapting" else study_of()
    for name in (name for name in ARMS if section_of(name) == section):
        for spec in study.specs(name).values():
            found = (spec.benchmark, spec.tasks, spec.class_order, spec.epochs, spec.batch_size, spec.model)
            assert found == ("split-cifar100", 10, 42, 20, 64, "resnet18"), name
            assert spec.get("buffer_capacity", 1000) == 1000, name
            assert spec.get("new_data", "half") == "half", name
            assert spec.get("joint_epoch", "newest") == "newest", name
            assert record_of(spec, 50.0).optimizer_steps == 79 * 20 * 10


def test_replay_in_long_tasks():
    """Spaced by hand is what the schedule does by itself; eased is that from task 4 on."""
    spec = ARMS["field/2000/spaced"].spec(0)
    schedule = SCHEDULES.get(spec.schedule)(**spec.options_of(SCHEDULES, spec.schedule))
    state, epochs = schedule.start(), []
    while state.next_epoch <= 50:
        epochs.append(state.next_epoch)
        state, _ = schedule.review(state, 100.0)
    assert ",".join(map(str, epochs)) == SPACED_LONG
    eased = ARMS["field/2000/eased"].spec(0).replay_epochs
    for task in range(1, 11):
        replayed = [epoch for epoch in range(1, 51) if is_listed(eased, task, epoch)]
        assert replayed == ([] if task == 1 else list(range(1, 51)) if task < 4 else epochs)
    for memory, ways in IN_FIELD.items():
        for way in ways:
            spec = ARMS[f"field/{memory}/{way}"].spec(0)
            assert (spec.epochs, spec.buffer_capacity, spec.new_data) == (50, memory, "all")
    # The small CNN is asked the same with the larger memory.
    for way in WHEN_LONG:
        cnn, like = (ARMS[f"{place}/{way}"].spec(1) for place in (LONG_WITH_CNN, "field/2000"))
        assert question(cnn) == question(like.replace(model="cnn")) != question(like)


def test_a_cpu_has_the_precision_of_a_gpu_where_its_runs_are_held_against_those():
    """And these are still the runs that a GPU makes of themselves. The small benchmarks are of CPUs alone."""
    for name, arm in ARMS.items():
        spec = arm.spec(0)
        assert spec.precision == ("auto" if name.removeprefix("balanced/").startswith("small/") else "bf16"), name
        assert question(spec.replace(precision="auto", device="cuda")) == question(spec.replace(device="cuda"))


def test_where_three_seeds_tell_no_more_are_run():
    """What is asked in full is there; all else of these sections has three, on small benchmarks as many as ever."""
    of = {"adapting": "adapting", "ablation": "ablation"} | {f"frontier/{method}": method for method in REPLAYING}
    for start, known in of.items():
        there = {name.removeprefix(f"{start}/").partition("/")[0]: arm for name, arm in ARMS.items()
                 if name.startswith(f"{start}/")}  # fmt: skip
        assert set(IN_FULL[known]) < set(there)
        # What ours and the others do by themselves is an arm of another section.
        assert {name for name, arm in there.items() if arm.seeds is None} == set(IN_FULL[known])
        assert {arm.seeds for arm in there.values()} == {None, 3}
    assert {arm.seeds for name, arm in ARMS.items() if name.startswith("small/")} == {None}


def test_another_network_is_asked_the_same():
    """It differs from what the paper's budget has in the model alone."""
    ways = {when for method in REPLAYING for when in WHEN if f"elsewhere/cnn/frontier/{method}/{when}" in ARMS}
    assert ways == {"every", "spaced", "fourth", "eight", "same-new"}
    for method in REPLAYING:
        for when in ways:
            if (name := f"elsewhere/cnn/frontier/{method}/{when}") in ARMS:
                cnn, like = (ARMS[arm].spec(1) for arm in (name, f"frontier/{method}/{when}"))
                assert question(cnn) == question(like.replace(model="cnn")) != question(like)
                assert ARMS[name].seeds == 3


def test_all_methods_have_one_recipe():
    for section in ("accuracy", "frontier", "exam"):
        for name in (name for name in ARMS if section_of(name) == section):
            spec = ARMS[name].spec(0)
            for field, value in RECIPE.items():
                if field != "policy" or spec.method not in OF_METHOD:
                    assert spec.get(field, value) == value, (name, field)


def test_settings_are_chosen_without_test_data_and_without_our_seeds():
    others = {spec.seed for name in ARMS if section_of(name) != "choices" for spec in study_of().specs(name).values()}
    for name in (name for name in ARMS if section_of(name) == "choices"):
        ((seed, spec),) = study_of().specs(name).items()
        assert spec.held_out == 0.1
        assert seed not in others


def test_where_replay_happens():
    assert spread_epochs(5) == "4,8,12,16,20"
    assert (spread_epochs(2), spread_epochs(1), spread_epochs(0), spread_epochs(-3)) == ("10,20", "20", "none", "none")
    for method in ("er", "er-ace", OURS):
        for when in WHEN:
            spec = ARMS[f"frontier/{method}/{when}"].spec(3)
            listed = spec.replay_epochs
            if method == OURS and when == "spaced":  # its schedule does that by itself
                assert (listed, spec.schedule, spec.mastery_threshold) == ("due", "expanding", 0.0)
            else:
                expected = {"spaced": SPACED, "same-new": SPACED, "fourth": "4,8,12,16,20", "two": "10,20", "one": "20"}
                expected |= {"none": "none", "random": random_epochs(5)(3)["replay_epochs"]}
                assert listed == expected.get(when, "all")
            assert spec.replay_per_batch == {"sixteen": 16, "eight": 8}.get(when, 0)
            control = "later" if method == OURS else "same"
            assert spec.unmixed == (control if when == "same-new" else "full")


@given(count=st.integers(1, EPOCHS), seed=st.integers(0, 99), of=st.integers(1, 60))
def test_epochs_are_of_a_task_and_each_once(count, seed, of):
    drawn = random_epochs(count)(seed)["replay_epochs"]
    for listed, most in ((spread_epochs(count), EPOCHS), (drawn, EPOCHS), (spread_epochs(count, of), of)):
        epochs = [int(epoch) for epoch in listed.split(",")]
        assert len(set(epochs)) == min(count, most)
        assert epochs == sorted(epochs)
        assert 1 <= epochs[0] <= epochs[-1] <= most
    assert spread_epochs(count, of).endswith(str(of))


def test_random_epochs_differ_by_seed_and_not_by_method():
    drawn = [random_epochs(5)(seed)["replay_epochs"] for seed in range(5)]
    assert len(set(drawn)) == 5
    for seed in range(5):
        assert {ARMS[f"frontier/{m}/random"].spec(seed).replay_epochs for m in ("er", "er-ace", OURS)} == {drawn[seed]}


@given(epochs=st.floats(0, EPOCHS))
def test_a_control_replays_as_much_as_what_it_matches(epochs):
    """To the nearest epoch's images, however many the schedule took; and only once that is known."""
    study, name = study_of(sections=["adapting"], seeds=2), "adapting/sm2"
    assert not study.specs(f"{name}/fixed")
    spec = study.specs(name)[1]
    an_epoch = 79 * 32 * 9
    replayed = round(epochs * an_epoch)
    study.add(record_of(spec, 50.0, replayed=replayed))
    assert list(study.specs(f"{name}/fixed")) == [1]
    control = record_of(study.specs(f"{name}/fixed")[1], 50.0)
    assert abs(control.replayed - replayed) <= an_epoch / 2
    assert mixed_epochs(control) == round(replayed / an_epoch)
    changed = {n for n, v in control.run_spec.identity().items() if spec.identity().get(n) != v}
    assert changed <= {"replay_epochs", "schedule", *(option.name for option in SCHEDULES.options("expanding"))}


def test_a_control_matches_on_other_data_too():
    study = study_of(sections=["adapting"], seeds=1, data="tiny")
    spec = study.specs("adapting/fsrs")[0]
    study.add(record_of(spec, 50.0, optimizer_steps=2 * spec.epochs * spec.tasks, replayed=2 * 22 * 2 * 3))
    control = study.specs("adapting/fsrs/fixed")[0]
    assert (control.epochs, control.replay_epochs) == (4, "1,3,4")


def test_arms_are_chosen_by_name():
    assert arms_of(["beyond"], "beyond", ARMS) == list(ARMS)
    chosen = arms_of(["beyond/exam", "beyond/accuracy", "beyond/exam"], "beyond", ARMS)
    assert chosen == [f"accuracy/{method}" for method in NAMES] + ["exam/er", f"exam/{OURS}"]
    assert arms_of(["beyond/frontier/er"], "beyond", ARMS) == [f"frontier/er/{when}" for when in WHEN]
    assert arms_of(["beyond/frontier/er/two"], "beyond", ARMS) == ["frontier/er/two"]


@pytest.mark.parametrize("name", ["beyond/nope", "beyond/frontier/e", "beyon", "beyond/"])
def test_a_name_that_means_no_arm(name):
    with pytest.raises(SpecError, match=f"unknown target '{name}': use one of beyond, beyond/accuracy, "):
        arms_of([name], "beyond", ARMS)


def test_other_data_takes_the_place_of_all():
    study = study_of(seeds=1, data="tiny")
    assert {(spec.benchmark, spec.tasks, spec.augment) for spec in study.plan()} == {("tiny", 3, "none")}
    assert {spec.method for spec in study.plan()} == {*NAMES, "tfcsr-spaced"}
