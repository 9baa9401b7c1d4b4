"""A run here whose folder is there: what comes home, in which order, and that a kill anywhere harms nothing."""

import json
import shutil
from pathlib import Path

import pytest

import tfcsr
from tests.conftest import make_spec
from tests.engines.conftest import same_files
from tests.experiments.conftest import essence
from tfcsr.engines.away import CHECKPOINT, EVENTS, Away
from tfcsr.engines.home import Home
from tfcsr.errors import BusyError, OutputError
from tfcsr.experiments.origin import Origins
from tfcsr.experiments.run import advance

KINDS = ("run_started", "run_resumed")


def spec_at(folder, **fields):
    return make_spec(**{"method": "tfcsr", "epochs": 2, "checkpoint_every": 1, "out": str(folder)} | fields)


def executed(spec, place, files, until=None, every=1):
    """The run at `place`, and all that goes home of it, a look after so many events. `until`: so many events."""
    away, messages, seen = Away(place, files), [], 0

    def listener(event):
        nonlocal seen
        seen += 1
        away.told = away.told or event["event"] in KINDS
        messages.extend(away.news() if seen % every == 0 else [])
        if seen == until:
            raise InterruptedError

    turns, result = advance(spec, [listener], at=str(place)), None
    try:
        while True:
            next(turns)
    except StopIteration as stop:
        result = stop.value
        messages += away.last_news()
    except InterruptedError:
        pass
    away.remove()
    assert not place.exists()
    return messages, result


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run, left alone in a folder of the same name."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return tfcsr.run(spec_at(folder)), folder


def fresh(spec):
    home = Home(spec, Origins()[spec])
    assert home.claim() is None
    return home


def test_a_run_elsewhere_leaves_what_one_here_leaves(tmp_path, whole):
    spec = spec_at(tmp_path / "home" / "run")
    home = fresh(spec)
    messages, result = executed(spec, tmp_path / "away", home.files())
    assert {kind for kind, _ in messages} == {"events", "checkpoint", "model"}
    assert not (tmp_path / "home" / "run" / "spec.json").exists()
    for kind, value in messages:
        home.take(kind, value)
        assert len(list((tmp_path / "home/run/checkpoint").glob("*.json"))) <= 2
    assert essence(home.finish(json.loads(json.dumps(result.to_dict())))) == essence(whole[0])
    home.close()
    same_files(tmp_path / "home" / "run", whole[1])


@pytest.mark.parametrize("until", [1, 4, 9, 13])
def test_a_node_that_dies_costs_what_has_not_come_home(tmp_path, whole, until):
    spec = spec_at(tmp_path / "home" / "run")
    home = fresh(spec)
    for kind, value in executed(spec, tmp_path / "first", home.files(), until)[0]:
        home.take(kind, value)
    files = home.files()
    assert bool(files) == any(name.startswith("checkpoint/") for name in files)
    messages, result = executed(spec, tmp_path / "second", files)
    for kind, value in messages:
        home.take(kind, value)
    home.finish(result.to_dict())
    home.close()
    same_files(tmp_path / "home" / "run", whole[1])


@pytest.mark.parametrize("every", [1, 7])
def test_a_driver_that_is_killed_after_any_message_goes_on_by_itself(tmp_path, whole, every):
    spec = spec_at(tmp_path / "run")
    home = fresh(spec)
    messages, _ = executed(spec, tmp_path / "away", home.files(), every=every)
    home.close()
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    cuts = [i for i, (kind, _) in enumerate(messages) if kind == CHECKPOINT]
    for cut in (1, cuts[0], cuts[0] + 1, cuts[2], cuts[2] + 1, len(messages)):
        home = fresh(spec)
        for kind, value in messages[:cut]:
            home.take(kind, value)
        home.close()
        assert essence(tfcsr.run(spec)) == essence(whole[0]), cut
        same_files(tmp_path / "run", whole[1])
        shutil.rmtree(tmp_path / "run")


def test_events_that_a_checkpoint_knows_of_are_never_taken_away(tmp_path):
    spec = spec_at(tmp_path / "run")
    home = fresh(spec)
    home.take(EVENTS, (0, b"one\ntwo\n"))
    home.take(EVENTS, (8, b"three\n"))
    home.take(EVENTS, (0, b"one\ntwo\nTHREE\n"))
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == b"one\ntwo\nTHREE\n"
    home.take(EVENTS, (0, b"one\n"))
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == b"one\n"
    with pytest.raises(OutputError, match="lacks what came before"):
        home.take(EVENTS, (100, b"x"))
    home.close()


def test_nor_where_the_disk_is_full_just_then(tmp_path, monkeypatch):
    home = fresh(spec_at(tmp_path / "run"))
    home.take(EVENTS, (0, b"one\ntwo\n"))

    class Full:
        def __init__(self, file):
            self.seek, self.truncate, self.close = file.seek, file.truncate, file.close

        def write(self, data):
            raise OSError(28, "No space left on device")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()

    opened = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r": Full(opened(path, mode)) if "+" in mode else opened(path, mode)
    )
    with pytest.raises(OutputError, match="No space left"):
        home.take(EVENTS, (0, b"one\ntwo\nthree\n"))
    monkeypatch.undo()
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == b"one\ntwo\n"
    home.close()


def test_events_that_may_yet_be_cut_back_stay_where_they_are(tmp_path):
    files = {"events.jsonl": b"one\ntwo\n", "checkpoint/3.json": b"{}", "checkpoint/3.safetensors": b""}
    away = Away(tmp_path / "away", files)
    assert away.news() == away.last_news() == []
    (tmp_path / "away" / "events.jsonl").write_bytes(b"one\nnew\n")
    away.told = True
    assert away.news() == [(EVENTS, (0, b"one\nnew\n"))]
    (tmp_path / "away" / "checkpoint" / "4.json").write_bytes(b"4")
    (tmp_path / "away" / "checkpoint" / "4.safetensors").write_bytes(b"t")
    assert away.news(checkpoints=False) == []
    assert away.news() == [(CHECKPOINT, (4, b"t", b"4"))]


def test_a_folder_is_claimed_and_a_complete_run_is_read(tmp_path):
    spec = spec_at(tmp_path / "run", epochs=1)
    origin = Origins()[spec]
    home, other = Home(spec, origin), Home(spec, origin)
    assert home.claim() is None
    with pytest.raises(BusyError):
        other.claim()
    home.close()
    assert not (tmp_path / "run").exists()  # nothing was written
    result = tfcsr.run(spec)
    assert other.claim() == result
    assert Home(spec.replace(out=None), origin).claim() is None


def test_what_comes_back_must_be_what_was_asked_for(tmp_path):
    spec = make_spec(method="er", epochs=1)
    result = tfcsr.run(spec).to_dict()
    home = fresh(spec)
    assert essence(home.finish(result)) == essence(tfcsr.run(spec))
    for wrong in (
        result | {"origin": result["origin"] | {"training": 0}},
        result | {"spec": result["spec"] | {"seed": 7}},
    ):
        with pytest.raises(OutputError, match="came back as another run"):
            home.finish(wrong)
    with pytest.raises(OutputError, match="final_accuracy"):
        home.finish(result | {"final_accuracy": "high"})
