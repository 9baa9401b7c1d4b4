"""The page of a learner: what it says, that nothing in a document can spoil it, and how it looks in a browser."""

import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

from tests.reporting.chromium import EXECUTABLE, MISSING, chromium
from tests.reporting.conftest import HOSTILE
from tfcsr.reporting.learner.page import LARGEST, POLICY, Limits, render

NAMES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]
SECTIONS = ["now", "instalments", "recall", "accuracy", "probes", "beware"]
EMPTY: dict[str, Any] = {
    "name": "model",
    "method": "tfcsr",
    "model": "resnet18",
    "version": "0.3.0",
    "made": "2026-11-15 12:00",
    "classes": [],
    "capacity": 2000,
    "kept": [],
    "recall_now": [],
    "recall_overall": None,
    "instalments": [],
    "probes": [],
    "evaluations": [],
    "unfinished": None,
}


def learner(classes: int = 10, instalments: int = 5, probes: int = 12, evaluations: int = 3) -> dict[str, Any]:
    """A learner that never was: so many classes came in so many instalments, and the early ones fade."""
    rng = random.Random(0)
    names = [NAMES[i] if i < len(NAMES) else f"class of goods {i}" for i in range(classes)]
    arrived = [i * instalments // classes for i in range(classes)]

    def found(after: int, ceiling: float) -> dict[str, float]:
        return {
            str(c): max(0.0, ceiling - (7 if c == 0 else 3 if c == 3 else 0.2) * (after - at) - 2 * rng.random())
            for c, at in enumerate(arrived)
            if at <= after
        }

    told, checks = [], []
    for i in range(instalments):
        recall = found(i, 100)
        new = [c for c in range(classes) if arrived[c] == i]
        again = [c for c in range(classes) if arrived[c] < i and rng.random() < 0.2]
        told.append(
            {
                "number": i + 1,
                "when": f"2026-11-{15 + i % 15} 10:02",
                "source": f"week{i + 1}/",
                "examples": 600 * len(new) + 100 * len(again),
                "per_class": {str(c): 600 for c in new} | {str(c): 100 for c in again},
                "new": new,
                "again": again,
                "epochs": 20,
                "steps": 380,
                "seconds": 33.2 + i,
                "recall": recall,
                "overall": sum(recall.values()) / max(1, len(recall)),
            }
        )
        for k in range(probes):
            value = 100 - 30 * rng.random() ** 3
            checks.append(
                {
                    "task": i + 1,
                    "epoch": 1 + 2 * k,
                    "recall": value,
                    "passed": value > 90,
                    "per_class": dict(list(recall.items())[:5]),
                }
            )
    tests = []
    for k in range(evaluations):
        after = max(0, instalments - evaluations + k)
        per_class = found(after, 93)
        tests.append(
            {
                "when": f"2026-12-{1 + k % 30:02} 09:00",
                "after": after + 1,
                "examples": 2000,
                "accuracy": sum(per_class.values()) / max(1, len(per_class)),
                "per_class": per_class,
            }
        )
    last = told[-1]["recall"] if told else {}
    return EMPTY | {
        "classes": names,
        "kept": [2000 // classes] * classes,
        "recall_now": [last.get(str(c)) for c in range(classes)],
        "recall_overall": sum(last.values()) / max(1, len(last)),
        "instalments": told,
        "probes": checks,
        "evaluations": tests,
    }


class Page(HTMLParser):
    """What a browser would make of it: its elements, and the text of those that are asked for by class or id."""

    VOID = ("meta", "link", "br")

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.words = ""
        self._open: list[int] = []
        self.feed(raw.decode())
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in self.VOID:
            self._open.append(len(self.tags) - 1)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_endtag(self, tag):
        assert self.tags[self._open.pop()][0] == tag

    def handle_data(self, data):
        inside = [self.tags[place][0] for place in self._open]
        if "style" in inside:
            return
        self.words += data
        for place in reversed(self._open):
            self.texts[place] += data
            if self.tags[place][0] in ("tr", "section", "header", "title"):  # nobody asks for the text of more
                break

    def of(self, tag: str, **wanted: str) -> list[str]:
        return [
            " ".join(text.split())
            for (name, attrs), text in zip(self.tags, self.texts, strict=True)
            if name == tag and all(attrs.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]

    @property
    def headline(self) -> str:
        (text,) = self.of("p", class_="headline")
        return text

    def table(self, number: int) -> list[list[str]]:
        """The rows of a table's body."""
        tables = [i for i, (tag, _) in enumerate(self.tags) if tag == "table"] + [len(self.tags)]
        rows: list[list[str]] = []
        for place in range(tables[number], tables[number + 1]):
            tag, _ = self.tags[place]
            if tag == "tr":
                rows.append([])
            elif tag in ("td", "th"):
                rows[-1].append(" ".join(self.texts[place].split()))
        return rows[1:]


def page(document: Any) -> Page:
    return Page(render(document))


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return learner() | {"unfinished": {"source": "week6/", "epoch": 4, "epochs": 20}}


def test_the_headline_says_it_all(whole):
    now, best = whole["recall_now"], [max(i["recall"].get(str(c), 0) for i in whole["instalments"]) for c in range(10)]
    lost = {NAMES[c]: round(round(best[c], 1) - round(now[c], 1), 1) for c in range(10)}
    for c in range(10):
        found = [e["per_class"][str(c)] for e in whole["evaluations"] if str(c) in e["per_class"]]
        lost[NAMES[c]] = max(lost[NAMES[c]], round(round(max(found), 1) - round(found[-1], 1), 1))
    fell = sorted((name for name in lost if lost[name] >= 5), key=lambda name: -lost[name])
    assert fell == ["t-shirt", "dress"]
    assert page(whole).headline == (
        f"10 classes learned in 5 instalments since 2026-11-15 10:02; {whole['recall_overall']:.1f} % of the 2,000"
        f" examples kept are recalled now, and {whole['evaluations'][-1]['accuracy']:.1f} % of 2,000 examples were"
        f" right in the last evaluation; being forgotten: t-shirt (−{lost['t-shirt']} points)"
        f" and dress (−{lost['dress']})."
    )
    assert "An instalment is unfinished: week6/, epoch 4 of 20." in page(whole).words


def test_many_that_are_being_forgotten_are_counted():
    told = learner(20, 1, 0, 0)
    assert "no class shows that it is being forgotten" in page(told).headline
    assert "no class lost more than chance explains" in page(told | {"exam": [2] * 20}).headline
    assert "no class is being forgotten" in page(learner(20, 1, 0, 1)).headline
    told["recall_now"] = [10.0] * 20
    assert page(told).headline.endswith("and 15 more.")
    assert page(told).headline.count("−") == 5


@pytest.mark.parametrize(("now", "forgotten"), [(94.1, False), (94.0, True), (93.96, True), (None, False)])
def test_five_points_below_its_best_is_being_forgotten(now, forgotten):
    told = learner(1, 1, 0, 0)
    told["instalments"][0]["recall"] = {"0": 99.0}
    text = page(told | {"recall_now": [now]}).headline
    assert ("being forgotten: t-shirt (−5.0 points)" in text) == forgotten


@pytest.mark.parametrize(("right", "forgotten"), [(18, False), (13, False), (12, True)])
def test_of_an_exam_only_what_chance_does_not_explain(right, forgotten):
    told = learner(1, 1, 0, 0) | {"exam": [20], "recall_now": [5.0 * right]}
    told["instalments"][0]["recall"] = {"0": 90.0}
    made = page(told)
    assert ("being forgotten: t-shirt" in made.headline) == forgotten
    assert ("no class lost more than chance explains" in made.headline) != forgotten
    assert "of the 20 examples of its exam are recalled now" in made.headline
    assert "20.0 examples of a class on average" in made.words
    assert "flatters" not in made.words


@pytest.mark.parametrize("exam", [None, 3, "x", [], ["x"], [-1], [1e9], {}, [True]])
def test_an_exam_that_is_none_is_none(exam):
    assert "flatters" in page(learner(1, 1, 0, 0) | {"exam": exam}).words


def test_everything_stands_in_its_order(whole):
    made = page(whole)
    assert [attrs["id"] for tag, attrs in made.tags if tag == "section"] == SECTIONS
    without = page(whole | {"evaluations": []})
    assert [attrs["id"] for tag, attrs in without.tags if tag == "section"] == [s for s in SECTIONS if s != "accuracy"]
    assert "flatters" in made.words
    assert made.of("code") == ["learner.evaluate(x, y)", "tfcsr predict", "exam_share=0.1"]


def test_classes_with_what_they_lost_first(whole):
    rows = page(whole).table(0)
    assert [row[0] for row in rows[:2]] == ["t-shirt", "dress"]
    assert {row[0] for row in rows} == set(NAMES)
    recall = [i["recall"]["0"] for i in whole["instalments"]]
    accuracy = [e["per_class"]["0"] for e in whole["evaluations"]]
    change = round(round(recall[-1], 1) - round(max(recall), 1), 1)
    seen = sum(i["per_class"].get("0", 0) for i in whole["instalments"])
    numbers = ["1", f"{seen}", "200", f"{recall[-1]:.1f}", f"{max(recall):.1f}", f"−{-change}"]
    assert rows[0][1:-1] == [*numbers, f"{accuracy[-1]:.1f}", f"{max(accuracy):.1f}"]
    lost = page(whole).of("td", class_="lost")
    assert f"−{-change}" in lost


def test_a_history_is_drawn_for_each_class_and_told(whole):
    made = page(whole)
    sparks = [attrs for tag, attrs in made.tags if tag == "svg" and attrs.get("class") == "spark"]
    assert len(sparks) == 10
    assert all(attrs["role"] == "img" for attrs in sparks)
    first, now = whole["instalments"][0]["recall"]["0"], whole["recall_now"][0]
    assert str(sparks[0]["aria-label"]).startswith(f"recall {first:.1f} % at first; recall {now:.1f} % now")


def test_instalments_as_they_came(whole):
    rows = page(whole).table(1)
    assert [row[0] for row in rows] == list("12345")
    assert rows[0][1:8] == ["2026-11-15 10:02", "week1/", "1,200", "t-shirt, trouser", "–", "20", "33 s"]
    many = learner(100, 2)
    assert page(many).table(1)[0][4] == f"{', '.join(NAMES[:6])} and 44 more"


def test_the_maps_hold_every_number(whole):
    made = page(whole)
    for number, entries, key, overall in (
        (2, whole["instalments"], "recall", "overall"),
        (3, whole["evaluations"], "per_class", "accuracy"),
    ):
        rows = made.table(number)
        assert rows[0] == ["all classes", *(f"{round(entry[overall], 1):.0f}" for entry in entries)]
        for c, row in enumerate(rows[1:]):
            found = [entry[key].get(str(c)) for entry in entries]
            assert row == [NAMES[c], *("" if value is None else f"{round(value, 1):.0f}" for value in found)]
    titles = [attrs.get("title") for tag, attrs in made.tags if tag == "td" and attrs.get("title")]
    assert f"t-shirt, instalment 2: {whole['instalments'][1]['recall']['0']:.1f} %" in titles


def test_every_probe_is_drawn_and_listed(whole):
    made = page(whole)
    marks = [attrs["href"] for tag, attrs in made.tags if tag == "use"]
    assert marks == ["#ok" if probe["passed"] else "#no" for probe in whole["probes"]]
    rows = made.table(4)
    assert [row[3] for row in rows] == ["yes" if probe["passed"] else "no" for probe in whole["probes"]]
    weakest = min(whole["probes"][0]["per_class"].items(), key=lambda entry: round(entry[1], 1))
    assert rows[0][4:] == [NAMES[int(weakest[0])], f"{weakest[1]:.1f}"]
    assert len([1 for tag, attrs in made.tags if tag == "line" and attrs.get("class") == "border"]) == 4


def test_it_asks_for_nothing_and_runs_nothing(whole):
    made = page(whole)
    (policy,) = (attrs["content"] for tag, attrs in made.tags if attrs.get("http-equiv"))
    assert policy == POLICY == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert not {tag for tag, _ in made.tags} & {"script", "img", "iframe", "object", "form", "base"}
    for tag, attrs in made.tags:
        for name in attrs:
            assert not name.startswith("on"), (tag, attrs)
        for name in ("src", "href", "action", "data", "xlink:href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:,")), (tag, attrs)
    assert b"http" not in render(whole).replace(b"http-equiv", b"")
    assert b"@import" not in render(whole)
    assert b"url(" not in render(whole)


def test_what_a_reader_without_eyes_or_mouse_needs(whole):
    for document in (whole, EMPTY, learner(1, 1, 1, 0)):
        made = page(document)
        tags = made.tags
        assert ("html", {"lang": "en"}) in tags
        levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in zip([0, *levels], levels, strict=False))
        ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        assert all(attrs["aria-labelledby"] in ids for tag, attrs in tags if tag == "section")
        assert all(attrs["href"].removeprefix("#") in ids for tag, attrs in tags if tag == "a")
        assert len(made.of("table")) == len(made.of("caption"))
        assert all(attrs.get("scope") in ("row", "col") for tag, attrs in tags if tag == "th")
        for tag, attrs in tags:
            if tag == "svg":
                assert attrs.get("aria-hidden") == "true" or (attrs["role"] == "img" and attrs["aria-label"])
            if str(attrs.get("class", "")).startswith("scroll"):
                assert attrs["tabindex"] == "0"
                assert attrs["aria-label"]


# Colours


def css(name: str) -> str:
    return (files("tfcsr.reporting") / "page" / name).read_text(encoding="utf-8")


def colours(text: str) -> dict[str, str]:
    return dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6})", text))


def contrast(one: str, other: str) -> float:
    def bright(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((bright(one), bright(other)))
    return (light + 0.05) / (dark + 0.05)


def test_its_colours_are_those_of_the_report_and_can_be_read():
    report = css("page.css")
    light, dark = report.partition('[data-theme="dark"]')[::2]
    own_light, rest = css("learner.css").partition("@media (prefers-color-scheme: dark)")[::2]
    own_dark, on_paper = rest.partition("@media print")[::2]
    dark_colours = colours(dark)
    assert len(dark_colours) == 6
    assert dark_colours.items() <= colours(own_dark).items()
    light_colours = colours(light) | colours(own_light)
    assert colours(on_paper) == light_colours
    assert colours(own_dark).keys() == light_colours.keys()
    for scheme in (light_colours, colours(own_dark)):
        for name in ("--text", "--faint", "--accent", "--lost"):
            assert contrast(scheme[name], scheme["--back"]) >= 4.5, name
        assert contrast(scheme["--faint"], scheme["--panel"]) >= 4.5
        for name in ("--passed", "--failed", "--second"):
            assert contrast(scheme[name], scheme["--back"]) >= 3, name


def test_every_number_on_a_map_can_be_read():
    fields = re.findall(r"\.heat \.h(\d+) {\s*background: (#\w{6});\s*(?:color: (#\w{6});)?", css("learner.css"))
    assert [int(number) for number, _, _ in fields] == list(range(21))
    for _, ground, ink in fields:
        assert contrast(ground, ink or "#ffffff") >= 4.5


# What may stand in a document


def test_an_empty_learner():
    made = page(EMPTY)
    assert made.headline == "Nothing has been learned yet."
    assert made.of("table") == []
    assert [attrs["id"] for tag, attrs in made.tags if tag == "section"] == [s for s in SECTIONS if s != "accuracy"]


def test_one_class():
    made = page(learner(1, 1, 1, 1) | {"kept": [1], "capacity": 1})
    assert made.headline.startswith("1 class learned in 1 instalment since 2026-11-15 10:02; ")
    assert "of the 1 example kept is recalled now" in made.headline
    assert "1 probe: " in made.words


def test_a_method_that_keeps_nothing():
    told = learner(evaluations=0, probes=0) | {"capacity": 0, "kept": [0] * 10, "recall_now": [None] * 10}
    told |= {"recall_overall": None}
    for instalment in told["instalments"]:
        instalment |= {"recall": {}, "overall": None}
    made = page(told)
    assert made.headline.endswith("; what is remembered is not known, for this method keeps no examples.")
    assert "examples kept" not in made.of("dt")
    assert "It has not probed its memory." in made.words
    assert "nothing was kept" in made.words
    judged = page(told | {"evaluations": learner()["evaluations"]})
    assert "being forgotten: t-shirt" in judged.headline
    assert "recall" not in judged.headline


BIDI = "\u202egnihsurb\u2066"
NAMED = [
    HOSTILE,
    '"><svg onload=alert(1)>',
    "' onmouseover='x",
    BIDI,
    "y" * 10_000,
    "",
    "a\x00b\n\ud800",
    "{{ 7 * 7 }}",
]


def test_hostile_names_stay_text():
    told = learner(8)
    for entry in told["instalments"]:
        entry |= {"source": HOSTILE * 100, "when": HOSTILE}
    for entry in told["evaluations"]:
        entry |= {"when": '" onclick="x'}
    told |= {"classes": NAMED, "unfinished": {"source": HOSTILE, "epoch": 1, "epochs": 2}}
    told |= dict.fromkeys(("name", "method", "model", "version", "made"), HOSTILE)
    raw = render(told)
    made = Page(raw)
    assert not {tag for tag, _ in made.tags} & {"script", "img"}
    assert not any(name.startswith("on") for _, attrs in made.tags for name in attrs)
    assert len([1 for tag, _ in made.tags if tag == "svg"]) == len(
        [1 for tag, _ in page(learner(8)).tags if tag == "svg"]
    )
    names = {row[0] for row in made.table(0)}
    assert '"><svg onload=alert(1)>' in names
    assert {r"\u202egnihsurb\u2066", "y" * 39 + "…", "class 5", r"a\x00b\n\ud800", "{{ 7 * 7 }}"} <= names
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\x00]", raw.decode())
    assert len(raw) < 150_000


def test_names_of_two_are_told_apart_and_numbers_are_called_classes():
    told = learner(3)
    assert {row[0] for row in page(told | {"classes": ["a", "a", "b"]}).table(0)} == {"a (class 0)", "a (class 1)", "b"}
    assert {row[0] for row in page(told | {"classes": ["0", "1", "2"]}).table(0)} == {"class 0", "class 1", "class 2"}
    assert {row[0] for row in page(told | {"classes": ["5", "0", "7"]}).table(0)} == {"class 5", "class 0", "class 7"}


ODD: list[Any] = [
    None, True, -1, 10**30, 1e308, float("nan"), float("inf"), "x", "9" * 5000, [], [None], {}, {"0": None}, {"99": 1},
    {"x": {}}, [{"0": "y"}], [[]], {3: 4}, b"bytes", {"0": float("nan")}, 10**5000,
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda value: str(type(value).__name__))
def test_any_value_may_be_anything(odd):
    whole = learner(2, 2, 1, 1) | {"unfinished": {"source": "week6/", "epoch": 4, "epochs": 20}}
    assert page(odd).headline == "Nothing has been learned yet."
    for key in whole:
        page(whole | {key: odd})
    for part in ("instalments", "probes", "evaluations"):
        page(whole | {part: [odd]})
        for key in whole[part][0]:
            made = page(whole | {part: [whole[part][0] | {key: odd}, *whole[part][1:]]})
            assert not re.search(r"nan|inf\b|1e\+|None", made.words)
    for key in ("source", "epoch", "epochs"):
        page(whole | {"unfinished": whole["unfinished"] | {key: odd}})


def test_percentages_end_at_a_hundred():
    told = learner(2, 1, 0, 0) | {"recall_now": [250.0, -3.0], "recall_overall": 1e9}
    rows = {row[0]: row for row in page(told).table(0)}
    assert (rows["t-shirt"][4], rows["trouser"][4]) == ("100.0", "0.0")
    assert "100.0 % of" in page(told).headline


@pytest.fixture(scope="module")
def largest() -> dict[str, Any]:
    return learner(1000, 200, probes=30, evaluations=60)


def test_there_is_room_for_the_largest(largest):
    raw = render(largest)
    assert len(raw) < LARGEST == 2_000_000
    made = Page(raw)
    assert len(made.table(0)) == 1000
    assert len(made.table(1)) == 200
    assert len(made.table(2)) == Limits().rows + 1
    said = " ".join(made.of("li"))
    for words in ("of 6,000 probes 1,000 are shown", "the map of 200 instalments has 30", "100 of 1,000 classes"):
        assert words in said
    failed = sum(not probe["passed"] for probe in largest["probes"])
    assert f"6,000 probes: {6000 - failed:,} passed, {failed:,} failed." in made.words


def test_names_as_long_as_can_be_leave_less_room_and_that_is_said(largest):
    raw = render(largest | {"classes": [f"{i}" + '"' * 60 for i in range(1000)]})
    assert len(raw) < LARGEST
    assert "of 1,000 classes the 500 that lost most are listed" in Page(raw).words
    assert Page(render(learner())).of("li") == []


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.mark.skipif(EXECUTABLE is None, reason=MISSING)
@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [
        ("whole", 360, "light"),
        ("whole", 390, "dark"),
        ("whole", 1200, "light"),
        ("hostile", 360, "dark"),
        ("large", 360, "light"),
        ("empty", 360, "light"),
    ],
)
def test_light_dark_and_small(browser, kind, width, scheme, whole, tmp_path):
    documents = {"whole": whole, "hostile": learner(8) | {"classes": NAMED, "name": "n" * 500}, "empty": EMPTY}
    document = learner(40, 40, 10, 40) if kind == "large" else documents[kind]
    (tmp_path / "page.html").write_bytes(render(document))
    visited = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    wrong: list[str] = []
    visited.on("console", lambda message: wrong.append(message.text))
    visited.on("dialog", lambda dialog: (wrong.append("dialog"), dialog.dismiss()))
    visited.on("request", lambda request: wrong.append(request.url) if request.url[:5] not in ("file:", "data:") else 0)
    visited.goto((tmp_path / "page.html").as_uri())
    ground = visited.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == (scheme == "dark")
    for details in visited.locator("details").all():
        details.evaluate("one => { one.open = true; }")
    assert not visited.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    outside = "all => all.filter(one => one.getBoundingClientRect().right > window.innerWidth + 1).length"
    assert visited.eval_on_selector_all(".scroll, p, h1, h2, dl, nav, details", outside) == 0
    narrow = "all => all.filter(one => one.getBoundingClientRect().width < 60).length"
    assert visited.eval_on_selector_all(".classes tbody th, .heat tbody th", narrow) == 0
    if kind != "empty":
        marks = visited.locator(".timeline use").all()
        assert marks[0].bounding_box()["width"] > 4
    visited.screenshot(path=tmp_path / "page.png", full_page=True)
    assert wrong == []
    visited.close()


@pytest.mark.skipif(EXECUTABLE is None, reason=MISSING)
def test_a_window_of_a_thousand_pixels_shows_an_instalment_whole(browser, whole, tmp_path):
    (tmp_path / "page.html").write_bytes(render(whole))
    visited = browser.new_page(viewport={"width": 1000, "height": 900})
    visited.goto((tmp_path / "page.html").as_uri())
    hidden = "one => one.scrollWidth - one.clientWidth"
    assert visited.locator("#instalments .scroll").evaluate(hidden) == 0
    visited.close()
