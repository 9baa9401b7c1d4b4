"""What the paper claims, tested: six questions, each answered with numbers and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import Estimate, estimate, fit_probability, optional_estimate, paired_difference
from tfcsr.paper.published import ARMS, BOTH_PROTOCOLS, GRIDS, PUBLISHED
from tfcsr.paper.reproduction import Reproduction

BENCHMARKS = {"mnist": "Split MNIST", "cifar": "Split CIFAR-100"}
# Below that probability a published run is said not to fit: the rule of the verdicts, as a number.
UNLIKELY = 0.05
FITS = ("augmented", "plain", "both", "neither, nearer augmented", "neither, nearer plain")


@dataclass(frozen=True)
class Finding:
    """A question, the answer in words, and the table it rests on."""

    title: str
    said: list[str]
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def audit(study: Reproduction) -> list[Finding]:
    return [
        same_run(study),
        probe_modes(study),
        left_over_loader(study),
        two_protocols(study),
        choices(study),
        gates(study),
    ]


def spread(value: Estimate | None, sign: str = "") -> str:
    """Mean ± half the 95 % interval; a mean alone where one run has no interval; a dash where there is none."""
    if value is None:
        return "–"
    half = "" if value.half_width is None else f" ± {value.half_width:.2f}"
    return f"{value.mean:{sign}.2f}{half}"


def _accuracy(runs: dict[int, Record]) -> Estimate | None:
    return optional_estimate(_finals(runs))


def _difference(runs: dict[int, Record], baseline: dict[int, Record]) -> Estimate | None:
    return paired_difference(
        {seed: r.final_accuracy for seed, r in runs.items()}, {seed: r.final_accuracy for seed, r in baseline.items()}
    )


def same_run(study: Reproduction) -> Finding:
    rows, equal, asked = [], 0, 0
    for name, benchmark in BENCHMARKS.items():
        arm = f"{name}/tfcsr" if name == "mnist" else "cifar/tfcsr-1000/augmented"
        held, er, tfcsr = study.of(arm), study.of(f"{name}/er/alone"), study.of(f"{name}/tfcsr/alone")
        for seed, one in er.items():
            other = tfcsr.get(seed)
            if other is None or not one.same_machine(other):
                continue
            same = one.weights_sha256 == other.weights_sha256
            asked, equal = asked + 1, equal + same
            read_off = "–"
            if seed in held and held[seed].same_machine(other):
                alike = (held[seed].weights_sha256, held[seed].probes) == (other.weights_sha256, other.probes)
                read_off = "yes" if alike else "no"
            accuracies = (f"{one.final_accuracy:.2f}", f"{other.final_accuracy:.2f}")
            checks = str(other.memory_checks)
            rows.append((benchmark, str(seed), *accuracies, checks, "yes" if same else "no", read_off))
    said = [f"In {equal} of {asked} pairs of runs, TFC-SR and ER with one seed ended in the same weights, bit for bit."]
    header = ("benchmark", "seed", "ER %", "TFC-SR %", "checks", "same weights", "same as read off the dense run")
    return Finding("Is TFC-SR another training run than ER?", said if asked else [], header, rows)


def probe_modes(study: Reproduction) -> Finding:
    rows, said = [], []
    without_effect: set[str] = set()
    for name, benchmark in BENCHMARKS.items():
        suffix = "" if name == "mnist" else "-1000/augmented"
        # None and eval mode are one run (question 1): a difference between them would be no evidence of anything.
        none = study.of(f"{name}/er{suffix}")
        rows.append((benchmark, "none, or eval mode as in the paper", str(len(none)), spread(_accuracy(none)), "–"))
        for label, arm in (("train mode", f"{name}/probe-train"), ("placebo", f"{name}/probe-placebo")):
            runs = study.of(arm)
            # On another machine the last bits differ, and training makes points of them, as the placebo does.
            paired = {seed: r for seed, r in runs.items() if _beside(r, none.get(seed))}
            difference = _difference(paired, none)
            n = str(difference.n if difference else len(runs))
            rows.append((benchmark, label, n, spread(_accuracy(runs)), spread(difference, "+")))
            if difference is not None and difference.low is not None and difference.high is not None:
                if all(r.accuracy_after_task == none[seed].accuracy_after_task for seed, r in paired.items()):
                    found = "after every task exactly the accuracy of"
                    without_effect.add(label)
                elif difference.low > 0 or difference.high < 0:
                    found = "differs from"
                else:
                    found = "no difference was found to"
                said.append(f"{benchmark}, {label}: {found} no probe ({spread(difference, '+')} points, n {n}).")
    if "train mode" in without_effect:
        said.append(
            "A probe in train mode moves the running averages of batch normalisation and nothing else; training does"
            " not read them, and has renewed them by the time a task is evaluated."
        )
    header = ("benchmark", "probe", "n", "final accuracy %", "against none, paired")
    return Finding("What does the probe change?", said, header, rows)


def _beside(one: Record, other: Record | None) -> bool:
    return other is not None and one.same_machine(other)


def left_over_loader(study: Reproduction) -> Finding:
    published = PUBLISHED["mnist/er"]
    rows = []
    for label, arm in (("the last task's in every task", "mnist/er-stale"), ("the right ones", "mnist/er")):
        runs = study.of(arm)
        starts = [r.accuracy_after_task[0] for r in runs.values()]
        first, final = (_fit(study, published.curve[i], v) for i, v in ((0, starts), (-1, _finals(runs))))
        after_first = spread(optional_estimate(starts))
        cells = (after_first, _probability(first), spread(_accuracy(runs)), _probability(final))
        rows.append((label, str(len(runs)), *cells))
    stale, right = study.of("mnist/er-stale"), study.of("mnist/er")
    said = []
    if stale and right:
        said.append(
            f"With its own data in every task ER ends at {spread(_accuracy(right))} %, with the loader left over from"
            f" the last task at {spread(_accuracy(stale))} %."
        )
        if study.data is None:
            said.append(
                f"Published: {published.curve[0]:.2f} % after task 1 and {published.curve[-1]:.2f} % at the end."
            )
    header = ("new examples", "n", "after task 1 %", "p of the published", "final accuracy %", "p of the published")
    return Finding("Split MNIST: which data did ER see?", said, header, rows)


def _finals(runs: dict[int, Record]) -> list[float]:
    return [record.final_accuracy for record in runs.values()]


def _curve_means(runs: dict[int, Record]) -> list[float]:
    return [fmean(record.accuracy_after_task) for record in runs.values()]


def two_protocols(study: Reproduction) -> Finding:
    rows = []
    fitting: dict[str, list[str]] = {name: [] for name in FITS}
    for name in BOTH_PROTOCOLS:
        published = PUBLISHED[f"cifar/{name}"].curve
        cells: list[str] = []
        likely: dict[str, float | None] = {}
        for protocol in ("augmented", "plain"):
            runs = study.of(f"cifar/{name}/{protocol}")
            final = _fit(study, published[-1], _finals(runs))
            whole = _fit(study, fmean(published), _curve_means(runs))
            cells += [f"{spread(_accuracy(runs))} ({len(runs)})", _probability(final), _probability(whole)]
            # Two looks at one run: twice the smaller probability counts.
            likely[protocol] = None if final is None or whole is None else 2 * min(final, whole)
        fits = _fits(likely)
        if fits in fitting:
            fitting[fits].append(name)
        rows.append((name, f"{published[-1]:.2f}" if study.data is None else "–", *cells, fits))
    said = [f"Fits {which}: {', '.join(names)}." for which, names in fitting.items() if names]
    if said:
        said.append(
            "p is the probability that one more run of ours lies as far from our mean as the published one, at the end"
            " or on average over its curve; a row fits where twice the smaller is at least 0.05. Of rows rightly"
            f" supposed, one in twenty falls out by chance; {len(rows)} are looked at."
        )
    er = {p: study.of(f"cifar/er-1000/{p}") for p in ("augmented", "plain")}
    effect = _difference(er["augmented"], er["plain"])
    if effect is not None:
        capacity = ARMS["cifar/er-1000/plain"].spec(0, study.data).buffer_capacity
        said.append(
            f"Augmentation alone moves ER with {capacity:,} examples by {spread(effect, '+')} points (paired, n"
            f" {effect.n})."
        )
        if study.data is None:
            gap = PUBLISHED["cifar/tfcsr-1000"].curve[-1] - PUBLISHED["cifar/er-1000"].curve[-1]
            said.append(f"The published advantage of TFC-SR over ER is {gap:+.2f} points.")
    header = (
        "row",
        "published %",
        "augmented % (n)",
        "p final",
        "p curve",
        "plain % (n)",
        "p final",
        "p curve",
        "fits",
    )
    return Finding("Split CIFAR-100: with or without augmentation?", said, header, rows)


def _fit(study: Reproduction, published: float, values: list[float]) -> float | None:
    return fit_probability(published, values) if study.data is None else None


def _probability(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _fits(likely: dict[str, float | None]) -> str:
    """One of `FITS`, or open."""
    found = {protocol: p for protocol, p in likely.items() if p is not None}
    if len(found) < len(likely):
        return "open"
    fitting = [protocol for protocol, p in found.items() if p >= UNLIKELY]
    if not fitting:
        return f"neither, nearer {max(found, key=found.__getitem__)}"
    return "both" if len(fitting) == len(found) else fitting[0]


def choices(study: Reproduction) -> Finding:
    rows, said = [], []
    for choice in study.choices(GRIDS):
        grid = choice.grid
        if not choice.complete:
            rows.append((grid.benchmark, grid.method, f"{grid.published:g}", "–", "–", "–", "–", "–"))
            continue
        n = min(map(len, choice.runs.values()))
        tested = ", ".join(f"{value:g}: {choice.test_accuracy(value):.2f}" for value in grid.values)
        chosen = (f"{choice.by_test:g}", f"{choice.by_held_out:g}", f"{choice.worth:+.2f}")
        rows.append((grid.benchmark, grid.method, f"{grid.published:g}", tested, *chosen, str(n)))
        said.append(
            f"{grid.benchmark}, {grid.method}: the test set chooses λ {choice.by_test:g}, held-out data"
            f" {choice.by_held_out:g}; that was worth {choice.worth:+.2f} points (n {n})."
        )
    header = ("benchmark", "method", "published λ", "test % by λ", "by test", "by held-out", "worth, points", "n")
    return Finding("What was choosing λ on the test set worth?", said, header, rows)


def gates(study: Reproduction) -> Finding:
    rows, said = [], []
    arms = (("test set, the paper's", "cifar/mgp/augmented"), ("held-out data", "cifar/mgp/held-out"))
    known = PUBLISHED["cifar/mgp"]
    if study.data is None and known.epochs_per_task is not None:
        rows.append(
            (
                "published",
                "1",
                *map(str, known.epochs_per_task),
                str(sum(known.epochs_per_task)),
                f"{known.curve[-1]:.2f}",
            )
        )
    found = {}
    for label, arm in arms:
        runs = study.of(arm)
        if runs:
            found[label] = runs
            per_task = zip(*(r.epochs_per_task for r in runs.values()), strict=True)
            means = [f"{fmean(epochs):.1f}" for epochs in per_task]
            total = estimate([float(r.epochs) for r in runs.values()])
            rows.append((label, str(len(runs)), *means, spread(total), spread(_accuracy(runs))))
    if len(found) == len(arms):
        test, held_out = found.values()
        epochs = paired_difference(
            {s: float(r.epochs) for s, r in held_out.items()}, {s: float(r.epochs) for s, r in test.items()}
        )
        said.append(
            f"With the gate on held-out data MGP trains {spread(epochs, '+')} epochs and gains"
            f" {spread(_difference(held_out, test), '+')} points against the gate on the test set (paired)."
        )
    tasks = max((len(row) - 4 for row in rows), default=0)
    header = ("gate", "n", *(f"task {i}" for i in range(1, tasks + 1)), "epochs", "final accuracy %")
    return Finding("Mastery-gated progression: does the gate's data matter?", said, header, rows)
