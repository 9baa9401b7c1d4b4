"""The figures of the reproduction: right series, labels and axes."""

import pytest

from tests.paper.test_reproduction import invented, study_of
from tfcsr.paper.published import ARMS, PUBLISHED, TARGETS
from tfcsr.paper.reproduction import method_of
from tfcsr.reporting.reproduction.figures import GREY, MOST_TOGETHER, draw
from tfcsr.reporting.styles import marker, style


def published_study():
    arms = dict.fromkeys(row.arm for target in TARGETS.values() for row in (*target.rows, *target.more))
    finals = {arm: 10.0 + i / 8 for i, arm in enumerate(arms)}
    return study_of(*(invented(arm, seed, finals[arm] + seed) for arm in arms for seed in range(3)), seeds=3)


CURVES = [name for name, target in TARGETS.items() if target.kind == "curves"]


def lines_of(axes, style):
    return [line for line in axes.get_lines() if line.get_linestyle() == style and len(line.get_xdata())]


@pytest.mark.parametrize("name", [name for name in CURVES if len(TARGETS[name].rows) <= MOST_TOGETHER])
def test_curves_as_in_the_paper(name):
    target = TARGETS[name]
    (axes,) = draw(published_study(), target).axes
    labels = [line.get_label() for line in axes.get_lines()]
    for row in target.rows:
        assert f"{row.label} (n 3)" in labels
    solid, dashed = lines_of(axes, "-"), lines_of(axes, "--")
    assert len(solid) == len(dashed) == len(target.rows)
    for row, ours, published in zip(target.rows, solid, dashed, strict=True):
        assert tuple(published.get_ydata()) == PUBLISHED[row.published].curve
        assert ours.get_color() == published.get_color()
        assert ours.get_marker() == marker(method_of(row.arm))
    assert len({line.get_color() for line in solid}) == len(solid)
    assert len(axes.collections) == len(solid)  # a band each
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] <= 102
    assert axes.get_xlabel() == "Number of tasks learned"
    assert axes.get_xscale() == "linear"
    assert "published (one run)" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_many_curves_are_small_panels():
    """Each has a panel where it alone is in colour; the others are in grey behind it."""
    target, figure = TARGETS["fig-a1"], draw(published_study(), TARGETS["fig-a1"])
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title().partition("\n")[0] for axes in panels] == [row.label for row in target.rows]
    for row, axes in zip(target.rows, panels, strict=True):
        solid, (published,) = lines_of(axes, "-"), lines_of(axes, "--")
        (ours,) = [line for line in solid if line.get_color() != GREY]
        assert ours.get_color() == style(method_of(row.arm))[0]
        assert ours.get_marker() == marker(method_of(row.arm))
        assert tuple(published.get_ydata()) == PUBLISHED[row.published].curve
        behind = {tuple(line.get_ydata()) for line in solid if line is not ours}
        assert {PUBLISHED[other.published].curve for other in target.rows} <= behind
        assert axes.get_ylim() == panels[0].get_ylim()
        assert all(line.get_zorder() < ours.get_zorder() for line in solid if line is not ours)
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
    assert "the other panels" in [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.kind in ("curves", "capacity")])
def test_what_was_not_augmented_is_hollow(name):
    """Where others in the figure were; and it is said."""
    target, figure = TARGETS[name], draw(published_study(), TARGETS[name])
    plain = {row.label for row in target.rows if ARMS[row.arm].fields["augment"] == "none"}
    mixed = 0 < len(plain) < len(target.rows)
    hollow = {
        line.get_color()
        for axes in figure.axes
        for line in axes.get_lines()
        if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    }
    said = [text.get_text() for axes in figure.axes for text in [*axes.texts, *_legend(axes)]]
    assert bool(hollow) == mixed == any("without augmentation" in text for text in said)
    if mixed and target.kind == "curves":
        assert len(hollow) == len(plain)


def _legend(axes):
    return [] if axes.get_legend() is None else axes.get_legend().get_texts()


def test_the_capacity_that_was_not_augmented_has_a_note():
    (axes,) = draw(published_study(), TARGETS["fig3"]).axes
    (mark,) = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert (mark.get_xdata()[0], mark.get_marker()) == (1000, marker("er"))
    alike = published_study().of("cifar/er-1000/augmented")
    mean = sum(record.final_accuracy for record in alike.values()) / len(alike)
    assert [text.get_text() for text in axes.texts] == [f"without augmentation;\nwith it {mean:.2f} %"]


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.kind in ("curves", "capacity")])
def test_nothing_is_drawn_beyond_what_an_accuracy_can_be(name):
    arms = dict.fromkeys(row.arm for row in TARGETS[name].rows)
    curve = {f"split-{kind}": [99.0] * tasks for kind, tasks in (("mnist", 5), ("cifar100", 10))}
    wild = study_of(
        *(
            invented(arm, seed, 50.0, accuracy_after_task=[value * (seed != 1) for value in curve[ARMS[arm].benchmark]])
            for arm in arms
            for seed in range(3)
        ),
        seeds=3,
    )
    for axes in draw(wild, TARGETS[name]).axes:
        drawn = [y for part in axes.collections for path in part.get_paths() for _, y in path.vertices]
        assert all(0 <= y <= 100 for y in drawn)


def test_the_capacities_have_a_log_axis():
    (axes,) = draw(published_study(), TARGETS["fig3"]).axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "500", "1000", "2000"]
    dashed = lines_of(axes, "--")
    assert [list(line.get_ydata()) for line in dashed] == [[8.51, 9.31, 7.40, 21.37], [8.55, 9.48, 13.17, 19.72]]


def test_tables_have_no_picture():
    assert all(draw(published_study(), TARGETS[name]) is None for name in ("table1", "table2", "table3", "table-a1"))
