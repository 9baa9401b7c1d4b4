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
        { ...band, y: with_band.map(([, point]) => inside(point[1])) },
        {
          ...band,
          y: with_band.map(([, point]) => inside(point[2])),
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
        point === null ? null : spread(point),
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
        error_x: bars(one.accuracy, { color: colour(one.colour), thickness: 2 }),
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
    "Nothing to compare with: no reference with a complete run of the same seed.";
  if (paired.length) {
    const bases = [...new Set(paired.map(([one]) => one.against))];
    const name = bases.length === 1 && bases[0] !== null ? group().series[bases[0]].label : "its reference";
    // A row without a mark says why.
    const silent = series
      .map((one, i) => [one.reference ? "reference" : one.against === null ? "" : "no seed in common", one, i])
      .filter(([word, one]) => word && one.difference === null);
    draw(
      "chart-difference",
      `Paired differences in final accuracy against ${name}`,
      paired.map(([one, i]) => {
        const value = one.difference;
        const other = one.against === null ? "" : group().series[one.against];
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
            symbol: SYMBOLS[one.variant % SYMBOLS.length] + (clear(value) ? "" : "-open"),
            line: { width: 2, color: colour(one.colour) },
          },
          text: [`<b>${text(one.label)}</b><br>${words}${other && `<br>against ${text(other.label)}`}`],
          hovertemplate: "%{text}<extra></extra>",
        };
      }),
      {
        ...rows(series),
        annotations: silent.map(([word, , i]) => ({
          x: 0,
          y: i,
          text: word,
          showarrow: false,
          bgcolor: page_colour("--back"),
          font: { size: 12, color: page_colour("--faint") },
        })),
        xaxis: {
          title: { text: text(short(`points against ${name}`, 38)) },
          zeroline: true,
          zerolinewidth: 2,
          zerolinecolor: dark() ? "#888888" : "#666666",
        },
      },
    );
  }
  table(
    "table-final",
    "Final accuracy (%) and the paired difference in points, each ± half its 95 % interval",
    ["series", "n", "accuracy", "difference", "against", "forgetting", "collapsed"],
    group().series.map((one) => [
      one.label,
      one.accuracy ? one.accuracy[3] : 0,
      one.accuracy ? spread(one.accuracy) : null,
      difference(one),
      one.against === null ? "" : group().series[one.against].label,
      one.forgetting ? fixed(one.forgetting[0]) : null,
      one.collapsed,
    ]),
  );
}

const clear = (value) => value[1] !== null && (value[1] > 0 || value[2] < 0);
function difference(one) {
  const word = (said) => element("span", { className: "quiet" }, said);
  if (one.reference) return word("reference");
  if (one.difference === null) return one.against === null ? null : word("no seed in common");
  return one.same_weights ? word("same weights") : spread(one.difference, { sign: true, strong: clear(one.difference) });
}

const heat = (z, x, y, words, more = {}) => ({
  type: "heatmap",
  z,
  x,
  y,
  customdata: words,
  hovertemplate: "%{customdata}<extra></extra>",
  colorscale: HEAT[dark() ? "dark" : "light"],
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

// Numbers in the fields of a map, in black or white, whichever is seen better there.
function numbers(z, x, y, digits) {
  const inks = { "#000000": [], "#ffffff": [] };
  z.forEach((row, i) =>
    row.forEach((value, j) => {
      if (value !== null) inks[ink(heat_colour(value))].push([x[j], y[i], fixed(value, digits)]);
    }),
  );
  return Object.entries(inks).map(([color, cells]) => ({
    type: "scatter",
    mode: "text",
    x: cells.map((cell) => cell[0]),
    y: cells.map((cell) => cell[1]),
    text: cells.map((cell) => cell[2]),
    textfont: { size: 12, color },
    hoverinfo: "skip",
  }));
}
// Beside the fields stand names and a colour bar.
const cell_width = (id, columns) => ($(id).clientWidth - (narrow() ? 130 : 190)) / columns;

// The classes that each task brought, in words; nothing where not all are shown, or seeds had other orders.
const seeds_left_out = (one) => (one.accuracy === null ? 0 : one.accuracy[3] - one.retention.seeds);
function task_classes(one) {
  const found = new Map();
  if (one.retention === null || !one.retention.all || seeds_left_out(one)) return found;
  const named = one.retention.names !== null;
  one.retention.classes.forEach((label, i) => {
    const task = one.retention.tasks[i];
    const name = named ? called(one.retention.names, label) : String(label);
    found.set(task, [...(found.get(task) || []), name]);
  });
  for (const [task, classes] of found) {
    const said = classes.slice(0, 8).join(", ") + (classes.length > 8 ? ", …" : "");
    found.set(task, named ? said : `${classes.length === 1 ? "class" : "classes"} ${said}`);
  }
  return found;
}
function column_names(one, brought) {
  if (narrow()) return one.columns.map(String);
  const room = Math.floor(cell_width("chart-matrix", one.columns.length) / 7);
  return one.columns.map((task) => {
    const classes = room > 12 && brought.get(task);
    return `task ${task}${classes ? `<br>${text(short(classes, room))}` : ""}`;
  });
}

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
  const brought = task_classes(one);
  const few = last <= 12;
  const trace = heat(
    z,
    names,
    names,
    z.map((line, i) =>
      line.map((value, j) => {
        const classes = brought.get(one.columns[j]);
        return value === null
          ? ""
          : `after ${names[i]}: ${fixed(value, 1)} % on ${names[j]}${classes ? `<br>${text(classes)}` : ""}`;
      }),
    ),
  );
  const written = few && cell_width("chart-matrix", last) > 30 ? numbers(z, names, names, narrow() ? 0 : 1) : [];
  draw("chart-matrix", `Accuracy matrix of ${one.label}, up to task ${one.columns[at - 1]}`, [trace, ...written], {
    height: Math.min(520, 130 + 44 * last),
    xaxis: {
      title: { text: narrow() ? "accuracy on task" : "accuracy on" },
      showgrid: false,
      type: "category",
      ...(few ? { tickvals: names, ticktext: column_names(one, brought) } : {}),
    },
    yaxis: { title: { text: "after" }, autorange: "reversed", showgrid: false, type: "category" },
    shapes: [
      { type: "rect", x0: -0.5, x1: at - 0.5, y0: at - 1.5, y1: at - 0.5, line: { width: 2, color: page_colour("--text") } },
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
  const which = seeds_left_out(one)
    ? ` This shows ${one.retention.seeds} of ${one.accuracy[3]} seeds: the others have another class order.`
    : "";
  $("retention-words").textContent = (fell.length
    ? `Most forgotten: ${fell
        .slice(0, 3)
        .map(([name, task, best, end]) => `${name} of task ${task} (${best} % at best, ${end} % at the end)`)
        .join(", ")}.`
    : "No class lost a point.") + which;
  const ticks_y = on_axis(names);
  const roomy = classes.length <= 40 && cell_width("chart-retention", after.length) > 24;
  const written = roomy ? numbers(z, after, ticks_y, 0) : [];
  draw(
    "chart-retention",
    `Accuracy of ${one.label} on each of ${classes.length} classes after each task`,
    [
      heat(
        z,
        after,
        ticks_y,
        z.map((row, i) =>
          row.map((value, j) =>
            value === null ? "" : `${text(names[i])} (task ${tasks[i]})<br>after ${after[j]}: ${value} %`,
          ),
        ),
        { ygap: classes.length > 40 ? 0 : 1 },
      ),
      ...written,
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

// What an upper bound neither keeps nor replays is no saving of its: it has no place on these scales.
const OFF_SCALE = ["replay_batches", "memory_checks", "buffer_bytes"];

function cost() {
  const complete = visible().filter((one) => one.accuracy !== null);
  // Where nobody pays anything, there is nothing to weigh.
  const paid = Object.keys(COSTS).filter((key) => group().series.some((one) => one.cost[key] > 0));
  const kind = (chosen.cost = options("cost-kind", paid.map((key) => [key, COSTS[key]]), chosen.cost));
  const drawable = complete.length > 1 && kind !== "";
  $("chart-cost").hidden = !drawable;
  for (const id of ["cost-choice", "cost-lead"]) $(id).hidden = !drawable;
  $("no-cost").hidden = drawable;
  $("no-cost").textContent =
    group().series.length > 1
      ? "Fewer than two of the series shown have a complete run: no cost can be weighed against another."
      : "There is one series here: its cost can be weighed against no other.";
  if (drawable) draw_cost(complete, kind);
  table(
    "table-cost",
    "Mean cost of a run, and final accuracy",
    ["series", "accuracy %", ...Object.values(COSTS), "not beaten in"],
    group().series.map((one) => [
      one.label,
      one.accuracy ? fixed(one.accuracy[0]) : null,
      ...Object.keys(COSTS).map((key) =>
        one.cost[key] === null ? null : counted(one.cost[key], key === "seconds" ? 1 : 0),
      ),
      one.front.map((key) => COSTS[key]).join(", "),
    ]),
  );
}

const cost_name = (labels, most) =>
  short(labels.slice(0, most).join(" · "), narrow() ? 24 : 60) +
  (labels.length > most ? ` and ${labels.length - most} more` : "");
// Which name stands where, in pixels. Points at one place share a name; a name that would cover another is left out.
function cost_names(series, { across, down, width, taken }) {
  const groups = [];
  for (const one of series) {
    const near = groups.find(
      ([first]) => Math.abs(across(first) - across(one)) < 16 && Math.abs(down(first) - down(one)) < 24,
    );
    if (near) near.push(one);
    else groups.push([one]);
  }
  const named = new Map();
  for (const [first, ...others] of groups) {
    const labels = [first, ...others].map((one) => one.label);
    const tries = [4, 3, 2, 1].flatMap((most) =>
      ["bottom right", "top right", "bottom left", "top left"].map((place) => [cost_name(labels, most), place]),
    );
    const found = tries.find(([name, place]) => {
      const long = 7 * name.length + 14;
      const x = across(first) + (place.endsWith("right") ? 0 : -long),
        y = down(first) + (place.startsWith("top") ? -22 : 6);
      const free = taken.every(([x0, w, y0, h]) => x + long <= x0 || x >= x0 + w || y + 16 <= y0 || y >= y0 + h);
      const clear_of = groups.every(([other]) => {
        if (other === first) return true;
        const [px, py] = [across(other), down(other)];
        return px + 8 <= x || px - 8 >= x + long || py + 8 <= y || py - 8 >= y + 16;
      });
      if (!free || !clear_of || x < 0 || x + long > width + 20) return false;
      taken.push([x, long, y, 16]);
      return true;
    });
    if (found) named.set(first, found);
  }
  return named;
}

function draw_cost(complete, kind) {
  const off = (one) => one.upper_bound && OFF_SCALE.includes(kind);
  const bounds = complete.filter(off);
  const series = complete.filter((one) => !off(one) && one.cost[kind] !== null);
  const front = series
    .filter((one) => one.front.includes(kind))
    .sort((a, b) => a.cost[kind] - b.cost[kind] || a.accuracy[0] - b.accuracy[0]);
  const widest = Math.max(1e-9, ...series.map((one) => one.cost[kind]));
  const height = narrow() ? 340 : 420;
  const right = 1.08 * widest,
    left = -0.05 * widest;
  const named = cost_names([...front, ...series.filter((one) => !front.includes(one))], {
    across: (one) => ((one.cost[kind] - left) / (right - left)) * ($("chart-cost").clientWidth - 80),
    down: (one) => (1 - one.accuracy[0] / 105) * (height - 80),
    width: $("chart-cost").clientWidth - 80,
    taken: bounds.map((one) => [0, 250, (1 - one.accuracy[0] / 105) * (height - 80), 18]),
  });
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
        error_y: bars(one.accuracy, { color: colour(one.colour), thickness: 1.3 }),
        marker: {
          color: colour(one.colour),
          size: 11,
          symbol: SYMBOLS[one.variant % SYMBOLS.length] + (one.upper_bound ? "-open" : ""),
          line: { width: one.upper_bound ? 2 : 0, color: colour(one.colour) },
        },
        text: [named.has(one) ? text(named.get(one)[0]) : ""],
        textposition: named.has(one) ? named.get(one)[1] : "bottom right",
        cliponaxis: false,
        customdata: [
          `<b>${text(one.label)}</b>${one.upper_bound ? " (upper bound, outside the race)" : ""}<br>` +
            `${estimate(one.accuracy)}<br>${counted(one.cost[kind], kind === "seconds" ? 1 : 0)} ${COSTS[kind]}`,
        ],
        hovertemplate: "%{customdata}<extra></extra>",
      })),
    ],
    {
      height,
      shapes: bounds.map((one) => ({
        type: "line",
        xref: "paper",
        x0: 0,
        x1: 1,
        y0: one.accuracy[0],
        y1: one.accuracy[0],
        line: { width: 1.5, dash: "dot", color: colour(one.colour) },
      })),
      annotations: bounds.map((one) => ({
        xref: "paper",
        x: 0,
        y: one.accuracy[0],
        xanchor: "left",
        yanchor: "top",
        showarrow: false,
        text: text(short(`${one.label} (upper bound)`, narrow() ? 34 : 70)),
      })),
      xaxis: { title: { text: COSTS[kind] }, range: [left, right], zeroline: false },
      yaxis: { title: { text: "final accuracy (%)" }, range: [0, 105] },
    },
  );
}
