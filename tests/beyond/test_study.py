"""What a study makes of the records there are: nothing is lost that another one wants."""

import dataclasses

import pytest

from tests.beyond.invented import answers, put, record_of, study_of
from tfcsr.beyond import study as beyond
from tfcsr.beyond.study import sections_with_runs
from tfcsr.experiments.record import Records
from tfcsr.paper import reproduction
from tfcsr.scenarios import study as scenarios

SEEDS = 3


def whole(seed, arm="exam/er"):
    spec = study_of().specs(arm)[seed]
    return record_of(spec, 30.0, **answers(spec, seed, lambda p: p, 100))


@pytest.mark.parametrize(
    ("module", "targets", "more"),
    [
        (beyond, ["beyond/exam"], {"seeds": 1}),
        (beyond, ["beyond/frontier"], {"seeds": 1, "data": "split-digits"}),
        (scenarios, ["scenarios"], {}),
        (reproduction, ["table1"], {}),
    ],
)
def test_what_a_file_knows_of_classes_survives_other_studies_and_fewer_seeds(tmp_path, module, targets, more):
    there = [whole(seed) for seed in range(SEEDS)]
    Records(there).write(tmp_path / "results.json")
    study = module.open_study(targets, out=tmp_path, **more)
    study.records.write(tmp_path / "results.json")
    again = beyond.open_study(["beyond/exam"], out=tmp_path).of("exam/er")
    assert {seed: record.class_accuracy for seed, record in again.items()} == {
        seed: record.class_accuracy for seed, record in enumerate(there)
    }


def test_of_a_folders_runs_no_more_is_kept_than_is_wanted(tmp_path, monkeypatch):
    wanted, other = whole(4), whole(0, "frontier/er/two")
    monkeypatch.setattr(Records, "read", classmethod(lambda cls, path: cls([wanted, other])))
    (tmp_path / "runs").mkdir()
    study = beyond.open_study(["beyond/exam"], seeds=1, out=tmp_path)
    assert [bool(record.class_accuracy) for record in study.records.runs] == [True, False]


def test_a_run_of_which_too_little_was_kept_is_made_again():
    study = study_of([whole(0).without_classes(), whole(1)], sections=["exam"], seeds=2)
    spec = study.specs("exam/er")[0]
    assert [s.seed for s in study.missing() if s.method == "er"] == [0]
    study.add(whole(1).without_classes())  # is known, and whole
    study.add(whole(0))
    assert [s.seed for s in study.missing() if s.method == "er"] == []
    assert study.known(spec).class_accuracy
    assert len(study.records.runs) == 2


def test_of_two_records_of_a_run_the_one_that_knows_its_classes_is_taken():
    first, second = whole(0), dataclasses.replace(whole(1), seconds=1.0)
    records = Records([first.without_classes(), second])
    records.merge(Records([first, dataclasses.replace(second, seconds=2.0)]))
    assert records.runs == [first, second]


def test_a_section_has_runs_of_its_own():
    study = study_of(sections=["accuracy"])
    put(study, "accuracy/er", {0: 30.0})  # which is also a point of the frontier
    assert sections_with_runs(study) == {"accuracy"}
    study.sections = ["frontier"]
    assert sections_with_runs(study) == {"frontier"}
    study.sections = ["exam"]
    assert sections_with_runs(study) == {"accuracy"}
    put(study, "frontier/er/none", {0: 8.0})
    assert sections_with_runs(study) == {"accuracy", "frontier"}
