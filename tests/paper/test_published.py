"""The paper's layout: what stands in its tables, and which runs each of them needs."""

import pytest

from tfcsr.errors import SpecError
from tfcsr.experiments.record import Records, question
from tfcsr.paper import published as paper
from tfcsr.paper.published import ARMS, GRIDS, PUBLISHED, SUMMARY, TARGETS
from tfcsr.paper.reproduction import Reproduction, arms_of, chosen


def plan(*targets, seeds=(0,), data=None):
    return Reproduction(targets, seeds, data, Records()).plan()


def test_every_target_of_the_paper_is_there():
    names = [
        "fig1",
        "fig2",
        "fig3",
        "table1",
        "table2",
        "table3",
        "table-a1",
        "fig-a1",
        "fig-b1",
        "fig-b2",
        "fig-c1",
        "fig-d1",
    ]
    assert list(TARGETS) == names
    assert chosen(["all"]) == [*names, "audit"]
    assert chosen(["audit", "fig2", "mnist"]) == ["fig1", "fig2", "audit"]
    with pytest.raises(SpecError, match="unknown target 'fig9': use one of fig1, fig2"):
        chosen(["fig9"])


def test_table_2_as_printed():
    printed = {100: (8.51, 8.55), 500: (9.31, 9.48), 1000: (7.40, 13.17), 2000: (21.37, 19.72)}
    rows = {(row.series, row.x): row.value.curve[-1] for row in TARGETS["table2"].rows}
    for capacity, (er, tfcsr) in printed.items():
        assert rows["Standard ER", capacity] == er
        assert rows["TFC-SR", capacity] == tfcsr
    assert len(rows) == 8


def test_table_3_as_printed():
    printed = [(15_800, 0, 7.40), (15_800, 50, 13.17), (3_555, 45, 10.18)]
    assert TARGETS["table3"].quantities == ("replay_batches", "memory_checks", "final_accuracy")
    for row, values in zip(TARGETS["table3"].rows, printed, strict=True):
        assert tuple(row.value.value(q) for q in TARGETS["table3"].quantities) == values


def test_table_a1_as_printed():
    printed = [(10, 50, 13.17), (20, 50, 13.17), (30, 50, 13.17), (50, 50, 13.17), (70, 51, 12.45), (90, 63, 13.17)]
    for row, (threshold, checks, accuracy) in zip(TARGETS["table-a1"].rows, [*printed, (99, 103, 11.58)], strict=True):
        assert ARMS[row.arm].spec(0).mastery_threshold == threshold
        assert (row.value.value("memory_checks"), row.value.value("final_accuracy")) == (checks, accuracy)


def test_table_1_as_printed():
    chosen_values = {name: grid.published for name, grid in GRIDS.items()}
    assert chosen_values == {"mnist/ewc": 10_000, "mnist/si": 100, "cifar/ewc": 10_000, "cifar/si": 1}
    assert all(grid.published in grid.values for grid in GRIDS.values())
    mnist, cifar = ARMS["mnist/tfcsr"].spec(0), ARMS["cifar/tfcsr-1000/plain"].spec(0)
    assert (mnist.buffer_capacity, mnist.mastery_threshold) == (200, 95)
    assert (cifar.buffer_capacity, cifar.mastery_threshold) == (1000, 10)
    assert ARMS["mnist/ewc"].spec(0).ewc_lambda == 10_000
    assert (ARMS["mnist/si"].spec(0).si_lambda, ARMS["cifar/si/plain"].spec(0).si_lambda) == (100, 1)


def test_the_common_protocol():
    for name, arm in ARMS.items():
        spec = arm.spec(3)
        assert (spec.lr, spec.batch_size, spec.class_order, spec.seed) == (1e-3, 64, 42, 3), name
        assert spec.epochs == (10 if arm.benchmark == paper.MNIST else 20)
        if spec.get("buffer_capacity") is not None:
            assert (spec.new_data, spec.replay_view) == ("half", "frozen")
        assert (spec.augment == "crop-flip") == (arm.benchmark == paper.CIFAR and not name.endswith("/plain")), name
    assert ARMS["cifar/mgp/plain"].spec(0).gate_data == "test"
    assert ARMS["cifar/mgp/held-out"].spec(0).held_out == 0.1
    assert ARMS["mnist/er-stale"].spec(0).new_task == "last"
    assert ARMS["mnist/er"].spec(0).new_task == "current"


def test_every_curve_has_a_point_per_task():
    for name, published in PUBLISHED.items():
        assert len(published.curve) == (5 if name.startswith("mnist") else 10)
    assert sum(PUBLISHED["cifar/mgp"].epochs_per_task) == 246


def test_everything_named_exists():
    for target in TARGETS.values():
        for row in (*target.rows, *target.more):
            assert row.arm in ARMS
            assert row.published is None or row.published in PUBLISHED
    for line in SUMMARY:
        assert {line.arm, line.alike} <= ARMS.keys()
        assert line.published in PUBLISHED
    assert set(arms_of(["all", "audit"][1:])) <= ARMS.keys()


def test_runs_are_shared():
    """Thresholds and ER at the same capacity are the same run; so are the rows of figures and tables."""
    assert len(plan("table-a1")) == 1
    assert len(plan("table-a1", "fig-a1", "table3")) == 3  # TFC-SR, plain ER, spaced replay
    assert len(plan("table2")) == len(plan("fig3")) == len(plan("table2", "fig3", "fig-b1", "fig-b2")) == 5
    assert len(plan("cifar")) == 10
    assert len(plan("cifar", seeds=range(5))) == 50


def test_tables_come_before_what_only_the_audit_asks_for():
    tables = {question(spec) for spec in plan("cifar", seeds=(0, 1))}
    order = [question(spec) in tables for spec in plan("cifar", "audit", seeds=(0, 1))]
    assert order == sorted(order, reverse=True)
    assert 0 < sum(order) < len(order)


def test_a_seed_is_finished_before_the_next_begins():
    assert [spec.seed for spec in plan("cifar", seeds=(0, 1, 2))] == [0] * 10 + [1] * 10 + [2] * 10


def test_runs_that_test_bits_run_alone():
    specs = plan("audit")
    assert sum(spec.method == "er" for spec in specs) == 2  # on MNIST and on CIFAR-100
    assert not any(spec.method == "er" for spec in plan("cifar", "mnist"))


def test_on_other_data_buffers_are_in_proportion():
    specs = [ARMS[f"cifar/er-{c}/plain"].spec(0, "split-digits") for c in paper.CAPACITIES]
    assert [spec.buffer_capacity for spec in specs] == [32, 100, 200, 400]  # at least half a batch
    assert {spec.benchmark for spec in specs} == {"split-digits"}
    assert ARMS["mnist/er"].spec(0, "split-digits").buffer_capacity == 50
