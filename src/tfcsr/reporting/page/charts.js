// The charts but for the timeline, each drawn anew from the document and what the reader chose.

function curves() {
  const tasks = group().tasks;
  const bands = [],
    lines = [];
  const crowded = visible().length > MOST_BANDS;
  $("no-bands").hidden = !crowded;
  for (const one of visible()) {
    const points = one.columns.map((task, i) => [task, one.curve[i]]).filter(([, point]) => point !== null);
    const with_band = points.filter(([, point]) => point[1] !== null);
    const shade = colour(one.colour);
    const band = {
      type: "scatter",
      mode: "lines",
      line: { width: 0 },
      hoverinfo: "skip",
      x: with_band.map(([task]) => task),
    };
    if (!crowded)
      bands.push(
        { ...band, y: with_band.map(([, point]) => point[1]) },
        {
          ...band,
          y: with_band.map(([, point]) => point[2]),
          fill: "tonexty",
          fillcolor: shade + (dark() ? "33" : "22"),
        },
      );
    lines.push({
      type: "scatter",
      mode: "lines+markers",
      name: text(one.label),
      x: points.map(([task]) => task),
      y: points.map(([, point]) => point[0]),
      line: { color: shade, dash: DASH[one.line], width: 2.2 },
      marker: { color: shade, symbol: SYMBOLS[one.variant % SYMBOLS.length], size: 6 },
      text: points.map(([task, point]) => `<b>${text(one.label)}</b><br>after task ${task}: ${estimate(point)}`),
      hovertemplate: "%{text}<extra></extra>",
    });
  }
  draw("chart-curves", `Learning curves of ${visible().length} series over ${tasks} tasks`, [...bands, ...lines], {
    height: narrow() ? 320 : 420,
    xaxis: {
      title: { text: "tasks learned" },
      dtick: tasks > 12 ? undefined : 1,
      range: [0.8, tasks + 0.2],
      showgrid: false,
    },
    yaxis: { title: { text: narrow() ? "accuracy (%)" : "accuracy over all classes seen (%)" }, range: [0, 103] },
  });
  const columns = group().series.length ? group().series[0].columns : [];
  table(
    "table-curves",
    "Accuracy (%) over all classes seen after each task: mean ± half the 95 % interval",
    ["series", ...columns.map((task) => `task ${task}`)],
    group().series.map((one) => [
      one.label,
      ...one.curve.map((point) =>
        point === null ? null : fixed(point[0]) + (point[2] === null ? "" : ` ±${fixed(point[2] - point[0])}`),
      ),
    ]),
  );
}

function wrapped(label, width, most) {
  const lines = [""];
  for (const word of label.split(" ")) {
    if (lines[lines.length - 1] && (lines[lines.length - 1] + word).length >= width) lines.push("");
    lines[lines.length - 1] += (lines[lines.length - 1] ? " " : "") + short(word, width);
  }
  return lines.slice(0, most).map((line, i) => text(i === most - 1 && lines.length > most ? line + "…" : line));
}

function rows(series) {
  const names = series.map((one) => wrapped(one.label, narrow() || printing ? 21 : 28, 3));
  const lines = Math.max(1, ...names.map((each) => each.length));
  return {
    height: 70 + (18 + 13 * lines) * Math.max(series.length, 1),
    yaxis: {
      tickvals: series.map((_, i) => i),
      ticktext: names.map((each) => each.join("<br>")),
      range: [series.length - 0.5, -0.5],
      showgrid: false,
      zeroline: false,
      tickfont: { size: 12 },
    },
  };
}

function final() {
  const series = visible().filter((one) => one.accuracy !== null);
  const y = series.map((_, i) => i);
  const bar = (value) => (value === null || value[2] === null ? 0 : value[2] - value[0]);
  const seeds = { x: [], y: [], text: [], color: [] };
  series.forEach((one, i) =>
    one.seeds.forEach(([seed, accuracy]) => {
      seeds.x.push(accuracy);
      seeds.y.push(i + 0.22);
      seeds.color.push(colour(one.colour));
      seeds.text.push(`<b>${text(one.label)}</b>, seed ${seed}: ${fixed(accuracy)} %`);
    }),
  );
  draw(
    "chart-final",
    `Final accuracy of ${series.length} series with 95 % intervals`,
    [
      {
        type: "scatter",
        mode: "markers",
        x: seeds.x,
        y: seeds.y,
        text: seeds.text,
        hovertemplate: "%{text}<extra></extra>",
        marker: { color: seeds.color, size: 5, opacity: 0.65 },
      },
      ...series.map((one, i) => ({
        type: "scatter",
        mode: "markers",
        x: [one.accuracy[0]],
        y: [i],
        marker: { color: colour(one.colour), size: 9, symbol: SYMBOLS[one.variant % SYMBOLS.length] },
        error_x: { type: "data", array: [bar(one.accuracy)], color: colour(one.colour), thickness: 2 },
        text: [`<b>${text(one.label)}</b><br>${estimate(one.accuracy)}`],
        hovertemplate: "%{text}<extra></extra>",
      })),
    ],
    { ...rows(series), xaxis: { title: { text: "final accuracy (%)" }, range: [-2, 103] } },
  );
  const paired = series.map((one, i) => [one, i]).filter(([one]) => one.difference !== null);
  $("chart-difference").hidden = !paired.length;
  $("no-difference").hidden = paired.length > 0;
  $("no-difference").textContent =
    "Nothing to compare with: no baseline with a complete run of the same seed.";
  if (paired.length) {
    const bases = [...new Set(paired.map(([one]) => one.against))];
    const name = bases.length === 1 && bases[0] !== null ? group().series[bases[0]].label : "its baseline";
    draw(
      "chart-difference",
      `Paired differences in final accuracy to ${name}`,
      paired.map(([one, i]) => {
        const value = one.difference;
        const other = one.against === null ? "" : group().series[one.against];
        const clear = value[1] !== null && (value[1] > 0 || value[2] < 0);
        const words = one.same_weights
          ? "bit-identical weights"
          : value[1] === null
            ? `${signed(value[0])} points (n = ${value[3]}, no interval)`
            : `${signed(value[0])} points (${signed(value[1])} to ${signed(value[2])}, n = ${value[3]})`;
        return {
          type: "scatter",
          mode: "markers",
          x: [value[0]],
          y: [i],
          error_x: { type: "data", array: [bar(value)], color: colour(one.colour), thickness: 2 },
          marker: {
            color: colour(one.colour),
            size: 10,
            symbol: SYMBOLS[one.variant % SYMBOLS.length] + (clear ? "" : "-open"),
            line: { width: 2, color: colour(one.colour) },
          },
          text: [`<b>${text(one.label)}</b><br>${words}${other && `<br>against ${text(other.label)}`}`],
          hovertemplate: "%{text}<extra></extra>",
        };
      }),
      {
        ...rows(series),
        xaxis: {
          title: { text: text(short(`points to ${name}`, 34)) },
          zeroline: true,
          zerolinewidth: 2,
          zerolinecolor: dark() ? "#888888" : "#666666",
        },
      },
    );
  }
  table(
    "table-final",
    "Final accuracy (%) with its 95 % interval, and the paired difference in points",
    ["series", "n", "accuracy", "95 % interval", "difference", "its interval", "against", "forgetting", "collapsed"],
    group().series.map((one) => [
      one.label,
      one.accuracy ? one.accuracy[3] : 0,
      one.accuracy ? fixed(one.accuracy[0]) : null,
      one.accuracy && one.accuracy[1] !== null ? `${fixed(one.accuracy[1])} to ${fixed(one.accuracy[2])}` : null,
      one.difference ? (one.same_weights ? "0, bit-identical" : signed(one.difference[0])) : null,
      one.difference && one.difference[1] !== null
        ? `${signed(one.difference[1])} to ${signed(one.difference[2])}`
        : null,
      one.against === null ? "" : group().series[one.against].label,
      one.forgetting ? fixed(one.forgetting[0]) : null,
      one.collapsed,
    ]),
  );
}

const heat = (z, x, y, words, more = {}) => ({
  type: "heatmap",
  z,
  x,
  y,
  text: words,
  hovertemplate: "%{text}<extra></extra>",
  colorscale: "Cividis",
  zmin: 0,
  zmax: 100,
  hoverongaps: false,
  colorbar: { thickness: 10, len: 1, outlinewidth: 0, ticksuffix: " %", dtick: 25, xpad: 4 },
  xgap: 1,
  ygap: 1,
  ...more,
});
const pick = (id, key, filter) => {
  const series = group().series.filter(filter);
  const preferred = series.find((one) => one.example) || series[0];
  chosen[key] = options(
    id,
    series.map((one) => [one.label, one.label]),
    chosen[key] || (preferred && preferred.label),
  );
  return series.find((one) => one.label === chosen[key]);
};

function matrix() {
  const one = pick("matrix-series", "matrix", (each) => each.matrix.some((row) => row.some((value) => value !== null)));
  $("matrix").hidden = !one;
  if (!one) return;
  const last = one.columns.length;
  const slider = $("matrix-task");
  slider.max = last;
  const at = Math.min(chosen.task || last, last);
  slider.value = at;
  $("matrix-at").textContent = one.columns[at - 1];
  const names = one.columns.map((task) => `task ${task}`);
  const ticks = narrow() ? { tickvals: names, ticktext: one.columns.map(String), nticks: 10 } : {};
  const z = one.matrix.map((row, i) => (i < at ? row : row.map(() => null)));
  const row = one.matrix[at - 1];
  const words = row.some((value) => value !== null)
    ? one.columns
        .slice(0, at)
        .map((task, j) => `task ${task} ${fixed(row[j], 1)} %`)
        .join(", ")
    : "not reached yet";
  slider.setAttribute("aria-valuetext", `after task ${one.columns[at - 1]}: ${words}`);
  $("matrix-words").textContent = `After task ${one.columns[at - 1]}: ${words}.`;
  const few = last <= 12;
  const trace = heat(
    z,
    names,
    names,
    z.map((line, i) =>
      line.map((value, j) => (value === null ? "" : `after ${names[i]}: ${fixed(value, 1)} % on ${names[j]}`)),
    ),
  );
  const numbers = few
    ? z
        .flatMap((line, i) =>
          line.map((value, j) => ({
            x: names[j],
            y: names[i],
            text: value === null ? "" : fixed(value, narrow() ? 0 : 1),
            showarrow: false,
            font: { size: 12, color: value > 55 ? "#000000" : "#ffffff" },
          })),
        )
        .filter((note) => note.text)
    : [];
  draw("chart-matrix", `Accuracy matrix of ${one.label}, up to task ${one.columns[at - 1]}`, [trace], {
    height: Math.min(520, 130 + 44 * last),
    annotations: numbers,
    xaxis: {
      title: { text: narrow() ? "accuracy on task" : "accuracy on" },
      showgrid: false,
      type: "category",
      ...(few ? ticks : {}),
    },
    yaxis: { title: { text: "after" }, autorange: "reversed", showgrid: false, type: "category" },
    shapes: [
      { type: "rect", x0: -0.5, x1: at - 0.5, y0: at - 1.5, y1: at - 0.5, line: { width: 2.5, color: "#D55E00" } },
    ],
  });
  table(
    "table-matrix",
    `Accuracy (%) of ${one.label}: rows after each task, columns on each task`,
    ["after", ...names],
    one.matrix.map((line, i) => [names[i], ...line.map((value) => (value === null ? null : fixed(value, 1)))]),
  );
}

// What a class is called: its name where the document has one, else its number.
const called = (place, label) =>
  (place !== null && place !== undefined && group().names[place][label]) || `class ${label}`;
// On an axis names are short, and each still is one of its own.
const on_axis = (names) => {
  const seen = new Set();
  return names.map((name) => {
    let tick = text(short(name, narrow() ? 14 : 28));
    for (let i = 2; seen.has(tick); i++) tick = text(short(name, narrow() ? 11 : 25)) + ` ${i}`;
    seen.add(tick);
    return tick;
  });
};

function retention() {
  const one = pick("retention-series", "kept", (each) => each.retention !== null);
  $("retention").hidden = !one;
  if (!one) return;
  const { classes, tasks, rows: z } = one.retention;
  const names = classes.map((label) => called(one.retention.names, label));
  const after = one.columns.map((task) => `task ${task}`);
  const ticks = narrow() && after.length <= 12 ? { tickvals: after, ticktext: one.columns.map(String) } : {};
  const fell = classes
    .map((_, i) => {
      const known = z[i].filter((value) => value !== null);
      return [names[i], tasks[i], Math.max(...known), known[known.length - 1]];
    })
    .filter((entry) => entry[2] - entry[3] >= 1)
    .sort((a, b) => b[2] - b[3] - (a[2] - a[3]));
  $("retention-words").textContent = fell.length
    ? `Most forgotten: ${fell
        .slice(0, 3)
        .map(([name, task, best, end]) => `${name} of task ${task} (${best} % at best, ${end} % at the end)`)
        .join(", ")}.`
    : "No class lost a point.";
  draw(
    "chart-retention",
    `Accuracy of ${one.label} on each of ${classes.length} classes after each task`,
    [
      heat(
        z,
        after,
        on_axis(names),
        z.map((row, i) =>
          row.map((value, j) =>
            value === null ? "" : `${text(names[i])} (task ${tasks[i]})<br>after ${after[j]}: ${value} %`,
          ),
        ),
        { ygap: classes.length > 40 ? 0 : 1 },
      ),
    ],
    {
      height: 80 + Math.min(640, Math.max(180, 24 * classes.length)),
      xaxis: { title: { text: narrow() ? "after task" : "after" }, type: "category", showgrid: false, ...ticks },
      yaxis: { autorange: "reversed", type: "category", showgrid: false },
    },
  );
  table(
    "table-retention",
    `Accuracy (%) of ${one.label} on each class after each task`,
    ["class", "its task", ...after],
    classes.map((label, i) => [one.retention.names === null ? String(label) : names[i], tasks[i], ...z[i]]),
  );
}

function cost() {
  const kind = $("cost-kind").value;
  const series = visible().filter((one) => one.accuracy !== null && one.cost[kind] !== null);
  const front = series
    .filter((one) => one.front.includes(kind))
    .sort((a, b) => a.cost[kind] - b.cost[kind] || a.accuracy[0] - b.accuracy[0]);
  const widest = Math.max(1e-9, ...series.map((one) => one.cost[kind]));
  // Names at one place would run into each other: the first of a cluster carries them all.
  const named = new Map();
  for (const one of [...front, ...(series.length > 14 ? [] : series.filter((each) => !front.includes(each)))]) {
    const near = [...named.keys()].find(
      (other) =>
        Math.abs(other.cost[kind] - one.cost[kind]) < widest * (narrow() ? 0.4 : 0.14) &&
        Math.abs(other.accuracy[0] - one.accuracy[0]) < 6,
    );
    if (near) named.get(near).push(one.label);
    else named.set(one, [one.label]);
  }
  const names = (one) =>
    text(short(named.get(one).slice(0, 3).join(" · ") + (named.get(one).length > 3 ? " …" : ""), narrow() ? 18 : 48));
  const place = (one) => (one.cost[kind] > widest * (narrow() ? 0.45 : 0.75) ? "bottom left" : "bottom right");
  draw(
    "chart-cost",
    `Final accuracy against ${COSTS[kind]} of ${series.length} series`,
    [
      {
        type: "scatter",
        mode: "lines",
        x: front.map((one) => one.cost[kind]),
        y: front.map((one) => one.accuracy[0]),
        line: { shape: "hv", color: dark() ? "#999999" : "#777777", width: 1.5, dash: "dot" },
        hoverinfo: "skip",
      },
      ...series.map((one) => ({
        type: "scatter",
        mode: named.has(one) ? "markers+text" : "markers",
        x: [one.cost[kind]],
        y: [one.accuracy[0]],
        error_y: {
          type: "data",
          array: [one.accuracy[2] === null ? 0 : one.accuracy[2] - one.accuracy[0]],
          color: colour(one.colour),
          thickness: 1.3,
        },
        marker: {
          color: colour(one.colour),
          size: 11,
          symbol: SYMBOLS[one.variant % SYMBOLS.length] + (one.upper_bound ? "-open" : ""),
          line: { width: one.upper_bound ? 2 : 0, color: colour(one.colour) },
        },
        text: [named.has(one) ? names(one) : ""],
        textposition: place(one),
        cliponaxis: false,
        customdata: [
          `<b>${text(one.label)}</b>${one.upper_bound ? " (upper bound, outside the race)" : ""}<br>` +
            `${estimate(one.accuracy)}<br>${one.cost[kind].toLocaleString("en")} ${COSTS[kind]}`,
        ],
        hovertemplate: "%{customdata}<extra></extra>",
      })),
    ],
    {
      height: narrow() ? 340 : 420,
      xaxis: { title: { text: COSTS[kind] }, range: [-0.05 * widest, 1.08 * widest], zeroline: false },
      yaxis: { title: { text: "final accuracy (%)" }, range: [0, 105] },
    },
  );
  table(
    "table-cost",
    "Mean cost of a run, and final accuracy",
    ["series", "accuracy %", ...Object.values(COSTS), "not beaten in"],
    group().series.map((one) => [
      one.label,
      one.accuracy ? fixed(one.accuracy[0]) : null,
      ...Object.keys(COSTS).map((key) => (one.cost[key] === null ? null : one.cost[key].toLocaleString("en"))),
      one.front.map((key) => COSTS[key]).join(", "),
    ]),
  );
}
