// The page around the charts: words, choices, light and dark, paper, and updates from a live server.

function summary() {
  const one = group();
  document.title = `${data.folder}: tfcsr ${data.live ? "live" : "report"}`;
  $("title").textContent = data.folder;
  if ($("headline").textContent !== data.headline) $("headline").textContent = data.headline;
  $("said").textContent = one ? one.summary.sentences.join(" ") : "";
  if (one) summary_table(one);
  $("beware").replaceChildren(...(one ? one.summary.beware : []).map((line) => element("li", {}, line)));
  $("left-out").replaceChildren(...data.left_out.map((line) => element("li", {}, `To keep this page small, ${line}.`)));
  $("made").textContent = `tfcsr ${data.version}, ${data.live ? "as of" : "made"} ${data.made} from ${data.path}`;
  $("group-choice").hidden = data.groups.length < 2;
  options(
    "group",
    data.groups.map((each) => [each.name, each.name]),
    one ? one.name : "",
  );
  for (const section of document.querySelectorAll("main section")) {
    section.hidden = !one && !["summary", "specs"].includes(section.id);
  }
  const open = data.runs.filter((run) => run.state !== "complete");
  const said = open.slice(0, 200).map((run) => {
    const bar = element("progress", { max: 1, value: run.share || 0 });
    bar.setAttribute("aria-label", `${run.name}: done`);
    const recall = run.recall === undefined ? "" : `, last recall ${fixed(run.recall, 1)} %`;
    return element(
      "div",
      { className: "run" },
      element("span", {}, run.name),
      bar,
      element(
        "span",
        { className: "quiet" },
        `${run.state === "running" ? "" : run.state + ": "}${run.words || ""}${recall}`,
      ),
    );
  });
  const more = open.length > said.length ? [element("p", {}, `and ${open.length - said.length} more`)] : [];
  $("progress").replaceChildren(...(said.length ? [element("h3", {}, "Not complete"), ...said, ...more] : []));
}

function summary_table(one) {
  const references = one.series.filter((each) => each.reference);
  const whom = references.length === 1 ? short(references[0].label, 30) : "its reference";
  const whole = (value) => (value === null ? null : counted(value));
  const compared = references.length > 0;
  const bold = compared ? "; in bold, differences whose interval leaves out 0" : "";
  table(
    "table-summary",
    `Final accuracy and cost: means over n seeds, ± half the 95 % interval${bold}`,
    [
      "method",
      "n",
      "accuracy %",
      ...(compared ? [`points against ${whom}`] : []),
      "forgetting",
      "steps",
      "replays",
      "checks",
    ],
    one.series.map((each) => [
      element("span", { className: "named" }, swatch(each), element("span", {}, each.label)),
      each.accuracy ? each.accuracy[3] : 0,
      each.accuracy ? spread(each.accuracy) : null,
      ...(compared ? [difference(each)] : []),
      each.forgetting ? fixed(each.forgetting[0]) : null,
      ...["optimizer_steps", "replay_batches", "memory_checks"].map((key) => whole(each.cost[key])),
    ]),
  );
}

function chips() {
  const series = group() ? group().series : [];
  const place = $("series");
  const key = JSON.stringify([series.map((one) => [one.label, one.colour, one.line]), dark()]);
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  const made = series.map((one) => {
    const box = element("input", { type: "checkbox", checked: !chosen.hidden.has(one.label) });
    box.addEventListener("change", () => {
      if (box.checked) chosen.hidden.delete(one.label);
      else chosen.hidden.add(one.label);
      curves();
      final();
      cost();
    });
    return element("label", {}, box, swatch(one), element("span", {}, one.label));
  });
  const all = ["all", "none"].map((word) => {
    const button = element("button", { type: "button" }, word === "all" ? "Show all" : "Show none");
    button.addEventListener("click", () => {
      chosen.hidden = new Set(word === "all" ? [] : series.map((one) => one.label));
      place.querySelectorAll("input").forEach((box) => {
        box.checked = word === "all";
      });
      curves();
      final();
      cost();
    });
    return button;
  });
  place.replaceChildren(place.querySelector("legend"), ...made, ...(series.length > 8 ? all : []));
}

const order = (one, seed) => (one.orders[seed] === undefined ? "" : ` --class-order ${one.orders[seed]}`);

function specs() {
  const place = $("spec-list");
  const shown = group() ? [group()] : [];
  const seeds = new Map();
  for (const run of data.runs) {
    if (!run.home) continue;
    const key = run.home.join();
    seeds.set(key, [...(seeds.get(key) || []), run.seed]);
  }
  const key = JSON.stringify([shown.map((one) => one.series.map((each) => [each.label, each.spec])), [...seeds]]);
  if (place.dataset.key !== key) {
    place.dataset.key = key;
    const open = new Set([...place.querySelectorAll("details[open]")].map((each) => each.dataset.label));
    place.replaceChildren(
      ...shown.flatMap((one) =>
        one.series.map((each, j) => {
          const numbers = [...new Set(seeds.get([data.groups.indexOf(one), j].join()) || [])].sort((a, b) => a - b);
          const commands =
            each.command === null
              ? element("p", {}, `No command repeats it as it is: ${each.why_no_command}`)
              : element("pre", {}, numbers.map((seed) => `${each.command}${order(each, seed)} --seed ${seed}`).join("\n"));
          const fields = Object.entries(each.spec).sort(
            (a, b) => each.given.includes(b[0]) - each.given.includes(a[0]),
          );
          const lines = fields.map(([name, value]) =>
            element(
              "tr",
              {},
              element("th", { scope: "row" }, name),
              element("td", {}, value),
              element("td", { className: "quiet" }, each.given.includes(name) ? "given" : "default"),
            ),
          );
          const made = element(
            "details",
            { open: open.has(each.label) },
            element("summary", {}, `${each.label}: ${each.runs} ${each.runs === 1 ? "run" : "runs"}`),
            commands,
            element(
              "div",
              { className: "scroll" },
              element(
                "table",
                {},
                element("caption", {}, "The spec, but for the seed"),
                element("tbody", {}, ...lines),
              ),
            ),
          );
          made.dataset.label = each.label;
          return made;
        }),
      ),
    );
  }
  place.querySelectorAll(".scroll").forEach(scrolls);
  const label = (run) => (run.home ? data.groups[run.home[0]].series[run.home[1]].label : "");
  table(
    "table-runs",
    `${data.runs.length} ${data.runs.length === 1 ? "run" : "runs"}, with the accuracy at the end`,
    ["series", "seed", "accuracy %", "state", "folder"],
    data.runs.map((run) => [
      label(run) || "–",
      run.seed === undefined ? null : run.seed,
      run.accuracy === undefined ? null : fixed(run.accuracy),
      run.state === "complete" ? "complete" : `${run.state}: ${run.words || ""}`,
      run.name,
    ]),
  );
}

function render() {
  summary();
  chips();
  specs();
  if (group()) for (const part of [curves, final, matrix, timeline, retention, cost]) part();
  document.documentElement.dataset.drawn = Number(document.documentElement.dataset.drawn || 0) + 1;
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function listen() {
  const said = $("connection");
  const source = new EventSource("events");
  source.addEventListener("open", () => {
    said.hidden = true;
    said.className = "";
  });
  source.addEventListener("message", (message) => {
    data = JSON.parse(message.data);
    render();
  });
  source.addEventListener("error", () => {
    said.hidden = false;
    said.className = "lost";
    said.textContent = "Not connected: what is shown may be old. Trying again.";
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(listen, 2000);
    } // else the browser tries by itself
  });
}

const system = window.matchMedia("(prefers-color-scheme: dark)");
theme(system.matches ? "dark" : "light");
system.addEventListener("change", () => {
  theme(system.matches ? "dark" : "light");
  render();
});
$("theme").addEventListener("click", () => {
  theme(dark() ? "light" : "dark");
  render();
});
$("group").addEventListener("change", (event) => {
  Object.assign(chosen, {
    group: event.target.value,
    hidden: new Set(),
    matrix: null,
    task: null,
    recalled: null,
    seeds: null,
    kept: null,
  });
  $("series").dataset.key = "";
  render();
});
$("matrix-series").addEventListener("change", (event) => {
  chosen.matrix = event.target.value;
  matrix();
});
$("matrix-task").addEventListener("input", (event) => {
  chosen.task = Number(event.target.value);
  matrix();
});
$("timeline-series").addEventListener("change", (event) => {
  chosen.recalled = event.target.value;
  timeline();
});
$("timeline-seeds").addEventListener("change", (event) => {
  chosen.seeds = event.target.value;
  timeline();
});
$("timeline-part").addEventListener("change", (event) => {
  chosen.part = event.target.value;
  timeline();
});
$("retention-series").addEventListener("change", (event) => {
  chosen.kept = event.target.value;
  retention();
});
$("cost-kind").addEventListener("change", (event) => {
  chosen.cost = event.target.value;
  cost();
});
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (width < 560 !== window.innerWidth < 560) render();
  width = window.innerWidth;
});
let before = null;
window.addEventListener("beforeprint", () => {
  // on paper: light, nothing folded away
  before = {
    theme: document.documentElement.dataset.theme,
    closed: [...document.querySelectorAll("details:not([open])")],
  };
  printing = true;
  theme("light");
  before.closed.forEach((each) => {
    each.open = true;
  });
  render();
});
window.addEventListener("afterprint", () => {
  printing = false;
  theme(before.theme);
  before.closed.forEach((each) => {
    each.open = false;
  });
  render();
});
render();
if (data.live) listen();
