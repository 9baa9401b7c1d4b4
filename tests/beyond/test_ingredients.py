"""What each part is worth, on runs whose answer is known."""

import pytest

from tests.beyond.invented import fill, put, study_of
from tfcsr.beyond.arms import NAMES, OURS, WITHOUT
from tfcsr.beyond.ingredients import ablation, choices, exam_cost, policies
from tfcsr.beyond.outcomes import asked


@pytest.mark.parametrize(("small", "whole"), [(None, f"accuracy/{OURS}"), ("digits", "small/digits/whole")])
def test_ingredients_and_policies_are_held_against_ours_as_it_is(small, whole):
    study = study_of(seeds=1 if small else 5)
    without = f"{asked('ablation', small)}/herding"
    put(study, whole, {seed: 50.0 + seed for seed in range(3)})
    put(study, without, {seed: 48.0 + seed + 0.3 * (seed % 2) for seed in range(3)})
    put(study, f"{asked('policies', small)}/ipm", {seed: 51.0 + seed + 0.3 * (seed % 2) for seed in range(3)})
    ingredients, kept = ablation(study, small), policies(study, small)
    assert (ingredients[0].name, ingredients[0].difference, kept[0].difference) == (whole, None, None)
    assert len(ingredients) == 1 + len(WITHOUT) + 1 - 2 * (small is not None)
    found = {row.label: row.difference.mean for row in (*ingredients, *kept) if row.difference is not None}
    expected = {"class-balanced instead of herded memory": -1.9, "class-balanced": -1.9, "ipm": 1.1}
    assert found == pytest.approx(expected)


def test_the_exams_cost_and_the_ablation_are_paired_with_the_whole():
    study = study_of(seeds=3)
    put(study, f"accuracy/{OURS}", {0: 50.0, 1: 51.0, 2: 53.0})
    put(study, f"exam/{OURS}", {0: 49.0, 1: 50.0, 2: 52.0})
    put(study, "ablation/strong", {0: 45.0, 1: 46.1, 2: 48.2})
    assert exam_cost(study, OURS).difference.mean == -1.0
    assert exam_cost(study, "er").difference is None
    rows = ablation(study)
    assert (rows[0].label, rows[0].difference) == ("all of it", None)
    known = {row.name: row.difference.mean for row in rows if row.difference is not None}
    assert known == pytest.approx({"ablation/strong": -4.9, f"exam/{OURS}": -1.0})


def test_choices_are_judged_by_what_was_held_out():
    study = fill(study_of(sections=["choices"]), lambda name, seed: 30.0 + len(name))
    found = choices(study)
    others = ("er", "er-ace", "derpp", "icarl")
    assert {of: [one.label for one in tried if one.chosen] for of, tried in found.items()} == {
        OURS: ["as it is"],
        **{NAMES[method]: [f"{NAMES[method]}, this recipe"] for method in others},
    }
    assert found[OURS][0].held_out == pytest.approx(31.0 + len("choices/as it is"))
    assert "accuracy" not in {field for field in vars(found[OURS][0]) if field != "held_out"}
