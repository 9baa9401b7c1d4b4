"""The methods beside each other, on runs whose answer is known."""

from tests.beyond.invented import put, study_of
from tfcsr.beyond.arms import OURS
from tfcsr.beyond.methods import best_published, field, ranking, settings


def test_the_field():
    study = study_of(seeds=3)
    put(study, "field/500/spaced", {0: 49.0, 1: 50.0, 2: 50.9})
    put(study, "field/2000/every", {0: 59.0, 1: 59.2, 2: 59.4})
    found = {(one.memory, one.way): (one.verdict, one.ahead) for one in field(study)}
    assert found == {
        (500, "spaced"): ("not met", "met"),
        (2000, "spaced"): ("open", "open"),
        (2000, "every"): ("met", "met"),
        (2000, "fourth"): ("open", "open"),
        (2000, "eased"): ("open", "open"),
    }
    assert [best_published(memory).accuracy[memory] for memory in (500, 2000)] == [49.9, 59.1]
    assert best_published(7) is None


def test_a_ranking():
    study = study_of(seeds=3)
    setting = "elsewhere/cnn"
    for method, final in (("er", 20.0), ("icarl", 40.0), (OURS, 35.0), ("joint", 60.0)):
        put(study, f"{setting}/{method}", {seed: final + seed for seed in range(3)})
    found = ranking(study, setting)
    assert found.order == ["icarl", OURS, "er"]
    assert [place.n for place in found.places] == [3, 3, 3, 0, 0]
    assert (found.rival, found.lead.mean, found.complete) == ("icarl", -5.0, False)
    assert found.bound.difference.mean == 40.0
    assert [place.newest_alone for place in found.places] == [0, 0, 0, 0, 0]
    assert ranking(study, "elsewhere/mnist").order == []
    assert settings() == [f"elsewhere/{place}" for place in ("mnist", "20-tasks", "50-tasks", "cnn")]


def test_who_knows_the_newest_task_alone_is_counted():
    study = study_of(seeds=3)
    put(study, "elsewhere/20-tasks/er", {0: 5.0, 1: 27.0, 2: 3.7})
    put(study, "elsewhere/50-tasks/er", {0: 5.0, 1: 2.01, 2: 2.0})
    counts = [ranking(study, f"elsewhere/{tasks}-tasks").places[0].newest_alone for tasks in (20, 50)]
    assert counts == [2, 1]
