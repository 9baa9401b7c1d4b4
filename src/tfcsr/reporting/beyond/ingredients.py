"""What ours is made of: each ingredient, what the memory keeps, and how the settings were chosen."""

from tfcsr.beyond.arms import OURS, PLAIN, RECIPE
from tfcsr.beyond.ingredients import ablation, choices, herded, policies
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import change_verdict
from tfcsr.reporting.beyond import cells
from tfcsr.reporting.pages import markdown_table, with_interval


def ablation_lines(study: Beyond) -> list[str]:
    rows = ablation(study)
    arms = [row for row in rows[1:] if row.difference is not None and change_verdict(row.difference) != "open"]
    worse = sorted((row for row in arms if row.difference and row.difference.mean < 0), key=cells.mean_difference)
    better = sorted((row for row in arms if row.difference and row.difference.mean > 0), key=cells.mean_difference)
    opened = [row.label for row in rows[1:] if row.n and change_verdict(row.difference) == "open"]
    costs = [f"{row.label}, {cells.points(row.difference)}" for row in worse]
    gains = [f"{row.label}, {cells.points(row.difference)}" for row in reversed(better)]
    return [
        *markdown_table(
            ("what is other", "final accuracy %", "against all of it, points", "verdict"),
            [
                (row.label, with_interval(row.accuracy), cells.difference(row), cells.verdict(row) if i else "–")
                for i, row in enumerate(rows)
            ],
        ),
        *cells.sentences(
            f"It costs accuracy, most first: {'; '.join(costs)}." if costs else "",
            f"It gains accuracy: {'; '.join(gains)}." if gains else "",
            f"Open: {'; '.join(opened)}." if opened else "",
            cells.without_runs(rows),
            cells.collapsed(rows),
        ),
    ]


def policy_lines(study: Beyond) -> list[str]:
    rows, others = policies(study), herded(study)
    said = {word: [row.label for row in rows[1:] if cells.verdict(row) == word] for word in ("better", "worse", "open")}
    table = [
        (row.label, with_interval(row.accuracy), cells.difference(row), cells.verdict(row) if i else "–")
        for i, row in enumerate(rows)
        if row.n
    ]
    beside = [
        (row.label, with_interval(row.accuracy), cells.difference(row), with_interval(lead, "+", without="–"))
        for row, lead in others
        if row.n
    ]
    header = (
        "with a herded memory",
        "final accuracy %",
        "against class-balanced, points",
        f"{OURS} is ahead by, points",
    )
    return [
        *(markdown_table(("memory policy", "final accuracy %", "against herding, points", "verdict"), table)),
        *(["", *markdown_table(header, beside)] if beside else []),
        *cells.sentences(
            f"Better than herding: {cells.listed(said['better'])}." if said["better"] else "",
            f"Worse than herding: {cells.listed(said['worse'])}." if said["worse"] else "",
            f"Not measurably different from herding: {cells.listed(said['open'])}." if said["open"] else "",
            cells.without_runs([*rows, *(row for row, _ in others)]),
            cells.collapsed([*rows, *(row for row, _ in others)]),
        ),
    ]


def choice_lines(study: Beyond) -> list[str]:
    found = choices(study)
    rows = [
        (
            of,
            one.label,
            "–" if one.held_out is None else f"{one.held_out:.2f}",
            str(one.n),
            "chosen" if one.chosen else "",
        )
        for of, tried in found.items()
        for one in tried
        if one.n
    ]
    missing = {of: ([one.label for one in tried if not one.n], len(tried)) for of, tried in found.items()}
    said = []
    for of, tried in found.items():
        known = [one for one in tried if one.held_out is not None]
        taken = next((one for one in known if one.chosen), None)
        if taken is None or len(known) < 2:
            continue
        best = max(known, key=lambda one: one.held_out or 0.0)
        gap = (best.held_out or 0.0) - (taken.held_out or 0.0)
        if gap <= 0:
            said.append(f"{of}: what was chosen, “{taken.label}”, has the highest held-out accuracy of {len(known)}.")
        else:
            said.append(f"{of}: “{taken.label}” was chosen; “{best.label}” has {gap:+.2f} points on held-out data.")
    return [
        "Trained on 90 % of the training data, judged on the rest, with a seed that no other run has. Test data have"
        " no part in it. One run each: differences of a point mean little. The plain recipe is"
        f" {cells.recipe(PLAIN, RECIPE)}.",
        "",
        *markdown_table(("method", "setting", "held-out accuracy %", "n", ""), rows),
        *cells.sentences(said, cells.missing(missing)),
    ]
