"""Several runs in turns, without a GPU: the turns are the same."""

import tfcsr
from tests.conftest import make_spec
from tfcsr.errors import OutOfMemoryError, TfcsrError
from tfcsr.experiments.run import advance
from tfcsr.experiments.saving import _under_way
from tfcsr.experiments.together import run_together


def specs(count):
    return [make_spec(method="er", seed=seed) for seed in range(count)]


def test_runs_in_turns_end_as_they_do_alone():
    grid, ended, order = specs(5), {}, []

    def begin(i):
        return advance(grid[i], [lambda event: order.append(i) if event["event"] == "epoch_finished" else None])

    run_together(grid, begin, ended.__setitem__, at_once=3)
    assert sorted(ended) == [0, 1, 2, 3, 4]
    for i, result in ended.items():
        assert result.weights_sha256 == tfcsr.run(grid[i]).weights_sha256
    assert {0, 1, 2} <= set(order[:8])  # side by side, not one after the other
    assert order.index(3) > 8


def test_checkpoints_of_runs_side_by_side_share_their_two_percent(tmp_path, slow_saves):
    """Each save holds up all of them: with epochs of 10 s a run, in turns, and saves of 0.5 s, two runs save at once
    and then each after 50 s or more, not 25.
    """
    saved, listener = slow_saves
    grid = [make_spec(method="er", seed=seed, out=str(tmp_path / str(seed))) for seed in (0, 1)]
    run_together(grid, lambda i: advance(grid[i], [listener]), lambda i, news: None, at_once=2)
    for seed in ("0", "1"):
        # Every third epoch, 60 s and more; the last may find itself alone.
        assert [number for name, number in saved if name == seed][:4] == [1, 4, 7, 10]
    assert not _under_way


def test_a_failed_run_does_not_stop_the_others():
    grid, ended = specs(3), {}

    def begin(i):
        if i == 1:
            raise_later = advance(grid[i], [])
            next(raise_later)
            yield
            raise TfcsrError("no luck")
        return (yield from advance(grid[i], []))

    run_together(grid, begin, ended.__setitem__, at_once=3)
    assert str(ended[1]) == "no luck"
    assert ended[0].final_accuracy >= 0
    assert ended[2].final_accuracy >= 0


def test_out_of_memory_means_fewer_at_once_and_is_said():
    grid, news, alive, most = specs(4), [], set(), []

    def begin(i):
        alive.add(i)
        try:
            if len(alive) > 2:
                raise OutOfMemoryError("no room")
            most.append(len(alive))
            return (yield from advance(grid[i], []))
        finally:
            alive.discard(i)

    run_together(grid, begin, lambda i, what: news.append((i, what)), at_once=4)
    said = [what for _, what in news if isinstance(what, dict)]
    assert said == [{"event": "out_of_memory", "at_once": 2}]
    assert sorted(i for i, what in news if not isinstance(what, dict)) == [0, 1, 2, 3]
    assert max(most) == 2


def test_out_of_memory_alone_is_an_error():
    def begin(i):
        raise OutOfMemoryError("no room at all")
        yield

    news = []
    run_together(specs(1), begin, lambda i, what: news.append(what))
    assert isinstance(news[0], OutOfMemoryError)
