"""What a balanced loss is worth, setting by setting."""

from tfcsr.beyond.arms import OURS, balanced
from tfcsr.beyond.balance import balance, less_replay
from tfcsr.beyond.study import Beyond
from tfcsr.reporting.beyond import cells
from tfcsr.reporting.pages import markdown_table, with_interval
from tfcsr.reporting.words import counted

WHAT = (
    f"`{OURS}` with `new_classes balanced`, against `own`. With `own` a new example competes with the classes of its"
    " task alone. With `balanced` new and replayed examples compete with all classes that the epoch trains on, and each"
    " logit is raised by the logarithm of its class's share of that training (Ren et al. 2020). An epoch without replay"
    " has new classes alone: there the two differ only where classes of a task have unequal numbers of examples. It was"
    " tried first on held-out training data, with seeds that no run here has; nothing in it was tuned."
)


def balance_lines(study: Beyond) -> list[str]:
    found = balance(study)
    known = [one for one in found if one.balanced.n]
    places = {one.arm: f"{cells.setting(study, one.arm)}, replay: {one.when}" for one in found}
    told = {one.arm: _precisions_said(study, one.arm, places[one.arm]) for one in known}
    # Of runs that differ in more than the loss nothing is decided.
    words = ["open" if told[one.arm] else cells.verdict(one.balanced) for one in known]
    rows = [
        (
            cells.setting(study, one.arm),
            one.when,
            with_interval(one.own.accuracy),
            with_interval(one.balanced.accuracy),
            cells.difference(one.balanced),
            word,
            with_interval(one.along, "+", without="–"),
        )
        for one, word in zip(known, words, strict=True)
    ]
    header = (
        "setting",
        "replay",
        "`own`: final accuracy %",
        "`balanced`: final accuracy %",
        "difference, points",
        "verdict",
        "in the mean over the tasks, points",
    )
    return [
        WHAT,
        "",
        *markdown_table(header, rows),
        *_less_replay(study),
        *cells.sentences(
            f"Of {counted(len(known), 'row')} `balanced` is better in {words.count('better')}, worse in"
            f" {words.count('worse')}; {words.count('open')} are open.",
            told.values(),
            [f"Without runs yet: {places[one.arm]}." for one in found if not one.balanced.n],
            cells.died((f"{places[one.arm]}, balanced", one.balanced) for one in found),
        ),
    ]


def _precisions_said(study: Beyond, arm: str, place: str) -> str:
    """Pairs of runs that differ in more than the loss: a reader is to know that."""
    own, other = ({record.spec["precision"] for record in study.of(name).values()} for name in (arm, balanced(arm)))
    if not own or own == other:
        return ""
    return (
        f"{place}: the runs with `own` have precision {cells.listed(sorted(own))}, those with `balanced`"
        f" {cells.listed(sorted(other))}. So the verdict is open."
    )


def _less_replay(study: Beyond) -> list[str]:
    rows = [
        (
            cells.setting(study, one.arm),
            with_interval(one.own, "+", without="–"),
            with_interval(one.balanced, "+", without="–"),
            one.verdict,
        )
        for one in less_replay(study)
        if one.balanced is not None
    ]
    header = (
        "epochs 1, 3, 5, 8, 13 against replay in every epoch",
        "`own`, points",
        "`balanced`, points",
        "verdict of `balanced`",
    )
    return ["", *markdown_table(header, rows)] if rows else []
