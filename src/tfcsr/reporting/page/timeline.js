// The recall timeline: the picture this project is about.

// What the reader chose: the lines of one series, and how they are shown (their mean, all, or one of them).
function recalled() {
  const lines = group().timelines;
  const labels = [...new Set(lines.map((one) => one.series))].map((i) => group().series[i].label);
  const example = (group().series.find((one) => one.example) || {}).label;
  chosen.recalled = options(
    "timeline-series",
    labels.map((label) => [label, label]),
    chosen.recalled || example,
  );
  const own = lines.filter((one) => group().series[one.series].label === chosen.recalled);
  const several =
    own.length > 1
      ? [
          ["mean", `mean of ${own.length} seeds`],
          ["all", `all ${own.length} seeds`],
        ]
      : [];
  chosen.seeds = options(
    "timeline-seeds",
    [...several, ...own.map((one) => [one.run, `seed ${one.seed}`])],
    chosen.seeds,
  );
  const one = own.filter((each) => each.run === chosen.seeds);
  return { lines: one.length ? one : own, how: one.length ? "one" : chosen.seeds };
}

// Several lines on one axis: a task is as long as its longest, and a probe stands at its epoch in its task.
function aligned(lines) {
  const epochs = lines[0].epochs.map((_, i) => Math.max(...lines.map((one) => one.epochs[i])));
  const starts = epochs.map((_, i) => epochs.slice(0, i).reduce((sum, value) => sum + value, 0));
  const probes = lines.map((one) =>
    one.probes.map(([, task, epoch, recall, ok, next]) => ({
      at: starts[task - 1] + epoch,
      due: next === null ? null : Math.min(starts[task - 1] + next, starts[task - 1] + epochs[task - 1]),
      task,
      epoch,
      recall,
      ok,
      next,
    })),
  );
  return { epochs, starts, total: starts[starts.length - 1] + epochs[epochs.length - 1], probes };
}

// Whenever any of the lines was probed: what the last probe of each found in this task, at that time.
function moments(probes) {
  const times = new Map();
  probes.forEach((each) => each.forEach((probe) => times.set(probe.at, probe)));
  const last = probes.map(() => -1);
  return [...times.keys()]
    .sort((a, b) => a - b)
    .map((at) => {
      const { task, epoch } = times.get(at);
      const known = [];
      let asked = 0,
        passed = 0;
      probes.forEach((each, i) => {
        while (last[i] + 1 < each.length && each[last[i] + 1].at <= at) last[i] += 1;
        const probe = each[last[i]];
        if (!probe || probe.task !== task) return;
        known.push([i, last[i]]);
        if (probe.at !== at) return;
        asked += 1;
        passed += probe.ok;
      });
      const recalls = known.map(([i, j]) => probes[i][j].recall);
      const [low, high] = [Math.min(...recalls), Math.max(...recalls)];
      return { at, task, epoch, known, asked, passed, recall: mean(recalls), low, high };
    });
}
const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

// The recall of each task or class at each of these times: the mean of the lines that know it.
function found_at(lines, times, part) {
  const key = part + "_names";
  const rows = [...new Set(lines.flatMap((one) => one[key] || []))];
  const places = lines.map((one) => new Map((one[key] || []).map((name, i) => [name, i])));
  const z = rows.map((name) =>
    times.map((time) => {
      const values = time.known
        .map(([i, j]) => (places[i].has(name) ? lines[i][part][places[i].get(name)][j] : null))
        .filter((value) => value !== null && value !== undefined);
      return values.length ? Math.round(mean(values)) : null;
    }),
  );
  const names = rows.map((name) => {
    const of = lines.find((one) => (one[key] || []).includes(name));
    return part === "per_task" ? `task ${name}` : called(of.names, name);
  });
  return { names, z };
}

function mark(name, points, ok, symbol, open = false) {
  const shade = ok ? colour("#0072B2") : dark() ? "#ff8c42" : "#D55E00";
  return {
    type: "scatter",
    mode: "markers",
    name,
    x: points.map((point) => point.at),
    y: points.map((point) => point.recall),
    text: points.map((point) => point.words),
    hovertemplate: "%{text}<extra></extra>",
    marker: { color: shade, size: 9, symbol, line: { width: ok && !open ? 0 : 2.5, color: shade } },
  };
}

// Each probe a mark, and the gap it chose a line behind it.
function marks_of(probes) {
  const shade = (ok) => (ok ? colour("#0072B2") : dark() ? "#ff8c42" : "#D55E00");
  const all = probes.flat();
  const gaps = [1, 0].map((ok) => {
    const which = all.filter((probe) => probe.ok === ok && probe.due !== null);
    return {
      type: "scatter",
      mode: "lines",
      x: which.flatMap((probe) => [probe.at, probe.due, null]),
      y: which.flatMap((probe) => [probe.recall, probe.recall, null]),
      line: { color: shade(ok), width: 2 },
      opacity: probes.length > 1 ? 0.35 : 0.6,
      hoverinfo: "skip",
    };
  });
  const passed = all.filter((probe) => probe.ok),
    failed = all.filter((probe) => !probe.ok);
  return [...gaps, mark("passed", passed, 1, "circle"), mark("failed", failed, 0, "x-thin")];
}

// The mean as a line that holds until the next probe of any seed, and from the lowest to the highest as a band.
function marks_of_mean(times, starts, epochs) {
  const x = [],
    line = [],
    low = [],
    high = [];
  times.forEach((time, i) => {
    const next = times[i + 1];
    const last = !next || next.task !== time.task;
    const end = last ? Math.max(time.at, starts[time.task - 1] + epochs[time.task - 1]) : next.at;
    x.push(time.at, end);
    line.push(time.recall, time.recall);
    low.push(time.low, time.low);
    high.push(time.high, time.high);
    if (last && next) [x, line, low, high].forEach((list) => list.push(null));
  });
  const blue = colour("#0072B2");
  const plain = { type: "scatter", mode: "lines", x, hoverinfo: "skip" };
  // A band has no gaps in Plotly: one for each task.
  const bands = [];
  let from = 0;
  [...x, null].forEach((value, i) => {
    if (value !== null) return;
    const part = (list) => list.slice(from, i);
    const band = { ...plain, x: part(x), line: { width: 0 } };
    bands.push({ ...band, y: part(low) }, { ...band, y: part(high), fill: "tonexty", fillcolor: blue + "2e" });
    from = i + 1;
  });
  const passed = times.filter((time) => time.asked && time.passed === time.asked),
    failed = times.filter((time) => time.asked && !time.passed),
    some = times.filter((time) => time.passed && time.passed < time.asked);
  return [
    ...bands,
    { ...plain, y: line, line: { color: blue, width: 2 } },
    mark("passed", passed, 1, "circle"),
    mark("failed", failed, 0, "x-thin"),
    mark("some passed", some, 1, "circle-open", true),
  ];
}

function timeline() {
  const { lines, how } = recalled();
  const one = lines[0];
  for (const id of ["timeline-series", "timeline-seeds", "timeline-part"]) $(id).closest("label").hidden = !one;
  for (const id of ["timeline-lead", "timeline-key"]) $(id).hidden = !one;
  $("chart-timeline").closest("figure").hidden = !one;
  if (!one) {
    $("timeline-words").textContent = "No run here has probed its buffer.";
    return;
  }
  const parts = [
    ["per_task", "task"],
    ["per_class", "class"],
  ].filter(([key]) => lines.some((each) => each[key]));
  chosen.part = options("timeline-part", parts, chosen.part);
  $("timeline-part").closest("label").hidden = !parts.length;
  const { epochs, starts, total, probes } = aligned(lines);
  const times = moments(probes);
  const { names, z } = found_at(lines, times, chosen.part);
  const all = probes.flat();
  const passed = all.filter((probe) => probe.ok).length;
  const open = lines.filter((each) => each.state !== "complete");
  const so_far = open.length ? ` so far (${[...new Set(open.map((each) => each.state))].join(", ")})` : "";
  const whom = how === "one" ? one.name : `${chosen.recalled}, ${how === "mean" ? "mean of" : "all"} ${lines.length} seeds`;
  const count = `${all.length} ${all.length === 1 ? "probe" : "probes"}`;
  $("timeline-words").textContent = `${whom}: ${count}, ${passed} passed, ${all.length - passed} failed${so_far}.`;
  const found = (i) =>
    names.length <= 12
      ? names
          .map((name, j) => (z[j][i] === null ? "" : `<br>${text(name)}: ${z[j][i]} %`))
          .filter(Boolean)
          .join("")
      : "";
  const index = new Map(times.map((time, i) => [time.at, i]));
  lines.forEach((each, i) =>
    probes[i].forEach((probe) => {
      const due = probe.next === null ? "" : `<br>next due after epoch ${probe.next} (gap ${probe.next - probe.epoch})`;
      const judged = `<b>recall ${fixed(probe.recall, 1)} %: ${probe.ok ? "passed" : "failed"}</b>`;
      const seed = lines.length > 1 ? `seed ${each.seed}, ` : "";
      const more = lines.length > 1 ? "" : found(index.get(probe.at));
      probe.words = `${seed}task ${probe.task}, after epoch ${probe.epoch}<br>${judged}${due}${more}`;
    }),
  );
  times.forEach((time, i) => {
    const range = `${fixed(time.low, 1)} to ${fixed(time.high, 1)} %`;
    const judged = `<b>recall ${fixed(time.recall, 1)} %</b>, ${range} in ${time.known.length} seeds`;
    const asked = `${time.asked} of ${lines.length} probed here, ${time.passed} passed`;
    time.words = `task ${time.task}, after epoch ${time.epoch}<br>${judged}<br>${asked}${found(i)}`;
  });
  const traces = how === "mean" ? marks_of_mean(times, starts, epochs) : marks_of(probes);
  const has = names.length > 0;
  const below = has ? Math.min(460, Math.max(150, 22 * names.length)) : 0;
  const height = 330 + below,
    share = has ? below / (height - 60) : 0;
  // Not behind the map below: there grey is a value.
  const shapes = epochs.map((count, i) => ({
    type: "rect",
    layer: "below",
    yref: "paper",
    y0: has ? share + 0.05 : 0,
    y1: 1,
    x0: starts[i],
    x1: starts[i] + count,
    line: { width: 0 },
    fillcolor: i % 2 ? "rgba(128,128,128,0)" : "rgba(128,128,128,0.13)",
  }));
  const few = epochs.length <= (narrow() ? 6 : 14);
  const annotations = few
    ? epochs.map((count, i) => ({
        x: starts[i] + count / 2,
        y: 1,
        yref: "paper",
        yanchor: "bottom",
        text: narrow() ? String(i + 1) : `task ${i + 1}`,
        showarrow: false,
      }))
    : [];
  if (one.threshold !== null)
    shapes.push({
      type: "line",
      x0: 0,
      x1: total,
      y0: one.threshold,
      y1: one.threshold,
      line: { width: 1.2, dash: "dot", color: dark() ? "#cccccc" : "#444444" },
    });
  $("timeline-lead").textContent =
    how === "mean"
      ? "The line is the mean over seeds of what each one's last probe of the buffer recalled, with the lowest and the " +
        "highest seed as a band; a mark stands where any seed was probed. Below, the same for each part."
      : "Each mark is a probe of the buffer. The line behind it is the gap that it chose, up to the next probe. Below, " +
        `what the probes found${how === "all" ? " (mean over seeds)" : ""}, each until the next one.`;
  // In words beside the chart: inside it they would stand where probes do.
  const key = how === "mean" ? ["● all probed seeds passed", "○ some passed", "✕ all failed"] : ["● passed", "✕ failed"];
  if (one.threshold !== null) key.push(`┄┄ threshold ${one.threshold} %`);
  $("timeline-key").replaceChildren(...key.flatMap((each) => [element("span", {}, each), " "]));
  // From 0, unless all lies in the upper half; then from a round number.
  const low = Math.min(one.threshold === null ? 100 : one.threshold, ...all.map((probe) => probe.recall));
  const bottom = low < 50 ? 0 : Math.floor((low - 1) / 10) * 10;
  const pad = 0.03 * (100 - bottom);
  const edges = [...times.map((time) => time.at), Math.max(total, times[times.length - 1].at + 1)];
  const who = how === "one" ? "" : `<br>mean of ${lines.length} seeds`;
  const words = z.map((row, j) =>
    row.map((value, i) =>
      value === null ? "" : `${text(names[j])}: ${value} %<br>task ${times[i].task}, after epoch ${times[i].epoch}${who}`,
    ),
  );
  const map = has
    ? [
        heat(z, edges, on_axis(names), words, {
          yaxis: "y2",
          xgap: 0,
          ygap: names.length > 40 ? 0 : 1,
          colorbar: { thickness: 10, len: 0.42, y: 0.2, outlinewidth: 0, ticksuffix: " %", dtick: 50, xpad: 4 },
        }),
      ]
    : [];
  draw(
    "chart-timeline",
    `Recall timeline of ${whom}: ${count} over ${total} epochs and ${epochs.length} tasks`,
    [...traces, ...map],
    {
      height,
      shapes,
      annotations,
      margin: { l: 52, r: 12, t: 26, b: 44 },
      xaxis: {
        title: { text: "epoch over the whole sequence" },
        range: [0, total],
        showgrid: false,
        anchor: has ? "y2" : "y",
        zeroline: false,
      },
      yaxis: {
        title: { text: "recall (%)" },
        range: [bottom - pad, 100 + pad],
        tick0: bottom,
        dtick: bottom ? 10 : 20,
        zeroline: false,
        domain: [has ? share + 0.05 : 0, 1],
      },
      ...(has ? { yaxis2: { domain: [0, share], autorange: "reversed", type: "category", showgrid: false } } : {}),
    },
  );
  timeline_table(whom, how, { lines, probes, times, names: names.length <= 20 ? names : [], z });
}

function timeline_table(whom, how, { lines, probes, times, names, z }) {
  if (how === "mean") {
    table(
      "table-timeline",
      `Recall (%) of ${whom}, whenever one of them was probed`,
      ["task", "epoch", "recall %", "lowest", "highest", "seeds", "probed", "passed", ...names],
      times.map((time, i) => [
        time.task,
        time.epoch,
        fixed(time.recall, 1),
        fixed(time.low, 1),
        fixed(time.high, 1),
        time.known.length,
        time.asked,
        time.passed,
        ...names.map((_, j) => z[j][i]),
      ]),
    );
    return;
  }
  const several = lines.length > 1;
  table(
    "table-timeline",
    `Probes of ${whom}`,
    [...(several ? ["seed"] : []), "task", "epoch", "recall %", "passed", "next due", "gap", ...(several ? [] : names)],
    lines.flatMap((each, k) =>
      probes[k].map(({ task, epoch, recall, ok, next }, i) => [
        ...(several ? [each.seed] : []),
        task,
        epoch,
        fixed(recall, 1),
        ok ? "yes" : "no",
        next,
        next === null ? null : next - epoch,
        ...(several ? [] : names.map((_, j) => z[j][i])),
      ]),
    ),
  );
}
