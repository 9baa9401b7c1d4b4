// Draws the page from one JSON document. Names come from files of others: they enter the page as text, never as markup,
// and what Plotly would read as markup is escaped for it.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const DASH = { "-": "solid", "--": "dash", "-.": "dashdot", ":": "dot" };
  const SVG_DASH = { "-": "", "--": "6 3", "-.": "6 2 1.5 2", ":": "1.5 2.5" };
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon"];
  // On a dark ground black and the darker greys and blues would be lost.
  const ON_DARK = { "#000000": "#f2f2f2", "#666666": "#a8a8a8", "#0072B2": "#3f9fe0", "#888888": "#b5b5b5" };
  const MOST_BANDS = 10;  // more of them hide each other
  const COSTS = { replay_batches: "replay batches", memory_checks: "memory checks", seconds: "seconds a run", buffer_bytes: "bytes of buffer" };
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false, typesetMath: false };
  const chosen = { hidden: new Set(), task: null };  // what the reader chose; kept when new data come
  let data = JSON.parse($("data").textContent);
  let printing = false;

  const text = (value) => String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const fixed = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−"));
  const signed = (value) => (value > 0 ? "+" : "") + fixed(value);
  const dark = () => !printing && document.documentElement.dataset.theme === "dark";
  const colour = (value) => (dark() ? ON_DARK[value] || value : value);
  const group = () => data.groups.find((one) => one.name === chosen.group) || data.groups[0];
  const visible = () => (group() ? group().series.filter((one) => !chosen.hidden.has(one.label)) : []);
  const narrow = () => window.innerWidth < 560 && !printing;
  const short = (value, most) => (value.length > most ? value.slice(0, most - 1) + "…" : value);

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in made) made[name] = value; else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  function table(id, caption, head, rows) {
    const place = $(id);
    const numeric = head.map((_, i) => i > 0 && rows.every((row) => typeof row[i] !== "string" || /^[−+\d–]/.test(row[i])));
    const cell = (tag, value, i) => element(tag, numeric[i] ? { className: "number" } : {}, value === null ? "–" : String(value));
    const header = element("tr", {}, ...head.map((value, i) => { const th = cell("th", value, i); th.scope = "col"; return th; }));
    const body = rows.map((row) => element("tr", {}, ...row.map((value, i) => {
      if (i) return cell("td", value, i);
      const th = cell("th", value, i); th.scope = "row"; return th;
    })));
    place.replaceChildren(element("table", {}, element("caption", {}, caption), element("thead", {}, header), element("tbody", {}, ...body)));
    place.tabIndex = 0;
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", caption);
  }

  function options(id, entries, value) {
    const select = $(id);
    const key = JSON.stringify(entries);
    if (select.dataset.key !== key) {  // else left alone: somebody may have it open
      select.replaceChildren(...entries.map(([value, label]) => element("option", { value }, label)));
      select.dataset.key = key;
    }
    select.value = entries.some(([one]) => one === value) ? value : entries.length ? entries[0][0] : "";
    return select.value;
  }

  function draw(id, words, traces, layout) {
    const style = getComputedStyle(document.documentElement);
    const [fore, line, back] = printing ? ["#1b1d1f", "#d5d9dd", "#ffffff"] : ["--text", "--line", "--back"].map((name) => style.getPropertyValue(name).trim());
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true, fixedrange: true, title: { standoff: 8 } };
    const full = {
      font: { family: "system-ui, sans-serif", size: 13, color: fore }, paper_bgcolor: back, plot_bgcolor: back,
      margin: { l: 52, r: 12, t: 12, b: 44 }, showlegend: false, dragmode: false, hovermode: "closest", autosize: true,
      hoverlabel: { bgcolor: back, bordercolor: fore, font: { color: fore, size: 13 }, align: "left" }, ...layout,
    };
    if (printing) Object.assign(full, { width: $(id).closest(".pair") ? 330 : 680, autosize: false });
    for (const name of Object.keys(full).filter((key) => /^[xy]axis/.test(key))) {
      const own = full[name];
      full[name] = { ...axis, ...own, title: { ...axis.title, ...(own.title || {}) } };
    }
    const chart = $(id);
    chart.style.height = full.height + "px";  // before it is drawn, so that nothing below jumps
    chart.setAttribute("aria-label", words);
    Plotly.react(chart, traces, full, CONFIG);
  }

  const estimate = (value) => (value === null ? "none yet" : value[1] === null ? `${fixed(value[0])} % (one seed, no interval)` : `${fixed(value[0])} % (${fixed(value[1])} to ${fixed(value[2])}, n = ${value[3]})`);

  function summary() {
    const one = group();
    document.title = `${data.folder}: tfcsr ${data.live ? "live" : "report"}`;
    $("title").textContent = data.folder;
    if ($("headline").textContent !== data.headline) $("headline").textContent = data.headline;
    $("compared").textContent = one ? one.summary.compared : "";
    $("found").replaceChildren(...(one ? one.summary.found : []).map(([label, said]) => element("li", {}, element("b", {}, label), ` ${said}`)));
    $("beware").replaceChildren(...(one ? one.summary.beware : []).map((line) => element("li", {}, line)));
    $("left-out").replaceChildren(...data.left_out.map((line) => element("li", {}, `To keep this page small, ${line}.`)));
    $("made").textContent = `tfcsr ${data.version}, ${data.live ? "as of" : "made"} ${data.made} from ${data.path}`;
    $("group-choice").hidden = data.groups.length < 2;
    options("group", data.groups.map((each) => [each.name, each.name]), one ? one.name : "");
    for (const section of document.querySelectorAll("main section")) {
      section.hidden = !one && !["summary", "specs"].includes(section.id);
    }
    const open = data.runs.filter((run) => run.state !== "complete");
    const said = open.slice(0, 200).map((run) => {
      const bar = element("progress", { max: 1, value: run.share || 0 });
      bar.setAttribute("aria-label", `${run.name}: done`);
      const recall = run.recall === undefined ? "" : `, last recall ${fixed(run.recall, 1)} %`;
      return element("div", { className: "run" }, element("span", {}, run.name), bar, element("span", { className: "quiet" }, `${run.state === "running" ? "" : run.state + ": "}${run.words || ""}${recall}`));
    });
    const more = open.length > said.length ? [element("p", {}, `and ${open.length - said.length} more`)] : [];
    $("progress").replaceChildren(...(said.length ? [element("h3", {}, "Not complete"), ...said, ...more] : []));
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
        if (box.checked) chosen.hidden.delete(one.label); else chosen.hidden.add(one.label);
        curves(); final(); cost();
      });
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      for (const [name, value] of [["width", 26], ["height", 8], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
      for (const [name, value] of [["d", "M0 4H26"], ["stroke", colour(one.colour)], ["stroke-width", 2.5], ["stroke-dasharray", SVG_DASH[one.line]]]) path.setAttribute(name, value);
      svg.append(path);
      return element("label", {}, box, svg, element("span", {}, one.label));
    });
    const all = ["all", "none"].map((word) => {
      const button = element("button", { type: "button" }, word === "all" ? "Show all" : "Show none");
      button.addEventListener("click", () => {
        chosen.hidden = new Set(word === "all" ? [] : series.map((one) => one.label));
        place.querySelectorAll("input").forEach((box) => { box.checked = word === "all"; });
        curves(); final(); cost();
      });
      return button;
    });
    place.replaceChildren(place.querySelector("legend"), ...made, ...(series.length > 8 ? all : []));
  }

  function curves() {
    const tasks = group().tasks;
    const bands = [], lines = [];
    const crowded = visible().length > MOST_BANDS;
    $("no-bands").hidden = !crowded;
    for (const one of visible()) {
      const points = one.columns.map((task, i) => [task, one.curve[i]]).filter(([, point]) => point !== null);
      const with_band = points.filter(([, point]) => point[1] !== null);
      const shade = colour(one.colour);
      const band = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", x: with_band.map(([task]) => task) };
      if (!crowded) bands.push({ ...band, y: with_band.map(([, point]) => point[1]) }, { ...band, y: with_band.map(([, point]) => point[2]), fill: "tonexty", fillcolor: shade + (dark() ? "33" : "22") });
      lines.push({
        type: "scatter", mode: "lines+markers", name: text(one.label), x: points.map(([task]) => task), y: points.map(([, point]) => point[0]),
        line: { color: shade, dash: DASH[one.line], width: 2.2 }, marker: { color: shade, symbol: SYMBOLS[one.variant % SYMBOLS.length], size: 6 },
        text: points.map(([task, point]) => `<b>${text(one.label)}</b><br>after task ${task}: ${estimate(point)}`), hovertemplate: "%{text}<extra></extra>",
      });
    }
    draw("chart-curves", `Learning curves of ${visible().length} series over ${tasks} tasks`, [...bands, ...lines], {
      height: narrow() ? 320 : 420, xaxis: { title: { text: "tasks learned" }, dtick: tasks > 12 ? undefined : 1, range: [0.8, tasks + 0.2], showgrid: false },
      yaxis: { title: { text: narrow() ? "accuracy (%)" : "accuracy over all classes seen (%)" }, range: [0, 103] },
    });
    const columns = group().series.length ? group().series[0].columns : [];
    table("table-curves", "Accuracy (%) over all classes seen after each task: mean ± half the 95 % interval", ["series", ...columns.map((task) => `task ${task}`)],
      group().series.map((one) => [one.label, ...one.curve.map((point) => (point === null ? null : fixed(point[0]) + (point[2] === null ? "" : ` ±${fixed(point[2] - point[0])}`)))]));
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
      yaxis: { tickvals: series.map((_, i) => i), ticktext: names.map((each) => each.join("<br>")), range: [series.length - 0.5, -0.5], showgrid: false, zeroline: false, tickfont: { size: 12 } },
    };
  }

  function final() {
    const series = visible().filter((one) => one.accuracy !== null);
    const y = series.map((_, i) => i);
    const bar = (value) => (value === null || value[2] === null ? 0 : value[2] - value[0]);
    const seeds = { x: [], y: [], text: [], color: [] };
    series.forEach((one, i) => one.seeds.forEach(([seed, accuracy]) => {
      seeds.x.push(accuracy); seeds.y.push(i + 0.22); seeds.color.push(colour(one.colour)); seeds.text.push(`<b>${text(one.label)}</b>, seed ${seed}: ${fixed(accuracy)} %`);
    }));
    draw("chart-final", `Final accuracy of ${series.length} series with 95 % intervals`, [
      { type: "scatter", mode: "markers", x: seeds.x, y: seeds.y, text: seeds.text, hovertemplate: "%{text}<extra></extra>", marker: { color: seeds.color, size: 5, opacity: 0.65 } },
      ...series.map((one, i) => ({
        type: "scatter", mode: "markers", x: [one.accuracy[0]], y: [i], marker: { color: colour(one.colour), size: 9, symbol: SYMBOLS[one.variant % SYMBOLS.length] },
        error_x: { type: "data", array: [bar(one.accuracy)], color: colour(one.colour), thickness: 2 },
        text: [`<b>${text(one.label)}</b><br>${estimate(one.accuracy)}`], hovertemplate: "%{text}<extra></extra>",
      })),
    ], { ...rows(series), xaxis: { title: { text: "final accuracy (%)" }, range: [-2, 103] } });
    const paired = series.map((one, i) => [one, i]).filter(([one]) => one.difference !== null);
    $("chart-difference").hidden = !paired.length;
    $("no-difference").hidden = paired.length > 0;
    $("no-difference").textContent = "Nothing to compare with: no baseline (er or finetune) with a complete run of the same seed.";
    if (paired.length) {
      const bases = [...new Set(paired.map(([one]) => one.against))];
      const name = bases.length === 1 && bases[0] !== null ? group().series[bases[0]].label : "its baseline";
      draw("chart-difference", `Paired differences in final accuracy to ${name}`, paired.map(([one, i]) => {
        const value = one.difference;
        const clear = value[1] !== null && (value[1] > 0 || value[2] < 0);
        const words = one.same_weights ? "bit-identical weights" : value[1] === null ? `${signed(value[0])} points (one seed, no interval)` : `${signed(value[0])} points (${signed(value[1])} to ${signed(value[2])}, n = ${value[3]})`;
        return {
          type: "scatter", mode: "markers", x: [value[0]], y: [i], error_x: { type: "data", array: [bar(value)], color: colour(one.colour), thickness: 2 },
          marker: { color: colour(one.colour), size: 10, symbol: SYMBOLS[one.variant % SYMBOLS.length] + (clear ? "" : "-open"), line: { width: 2, color: colour(one.colour) } },
          text: [`<b>${text(one.label)}</b><br>${words}${one.against === null ? "" : `<br>against ${text(group().series[one.against].label)}`}`], hovertemplate: "%{text}<extra></extra>",
        };
      }), { ...rows(series), xaxis: { title: { text: text(short(`points to ${name}`, 34)) }, zeroline: true, zerolinewidth: 2, zerolinecolor: dark() ? "#888888" : "#666666" } });
    }
    table("table-final", "Final accuracy (%) with its 95 % interval, and the paired difference in points", ["series", "n", "accuracy", "95 % interval", "difference", "its interval", "against", "forgetting", "collapsed"],
      group().series.map((one) => [one.label, one.accuracy ? one.accuracy[3] : 0, one.accuracy ? fixed(one.accuracy[0]) : null,
        one.accuracy && one.accuracy[1] !== null ? `${fixed(one.accuracy[1])} to ${fixed(one.accuracy[2])}` : null, one.difference ? (one.same_weights ? "0, bit-identical" : signed(one.difference[0])) : null,
        one.difference && one.difference[1] !== null ? `${signed(one.difference[1])} to ${signed(one.difference[2])}` : null, one.against === null ? "" : group().series[one.against].label,
        one.forgetting ? fixed(one.forgetting[0]) : null, one.collapsed]));
  }

  const heat = (z, x, y, words, more = {}) => ({
    type: "heatmap", z, x, y, text: words, hovertemplate: "%{text}<extra></extra>", colorscale: "Cividis", zmin: 0, zmax: 100, hoverongaps: false,
    colorbar: { thickness: 10, len: 1, outlinewidth: 0, ticksuffix: " %", dtick: 25, xpad: 4 }, xgap: 1, ygap: 1, ...more,
  });
  const pick = (id, key, filter) => {
    const series = group().series.filter(filter);
    const preferred = series.find((one) => one.method === "tfcsr") || series[0];
    chosen[key] = options(id, series.map((one) => [one.label, one.label]), chosen[key] || (preferred && preferred.label));
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
    const words = row.some((value) => value !== null) ? one.columns.slice(0, at).map((task, j) => `task ${task} ${fixed(row[j], 1)} %`).join(", ") : "not reached yet";
    slider.setAttribute("aria-valuetext", `after task ${one.columns[at - 1]}: ${words}`);
    $("matrix-words").textContent = `After task ${one.columns[at - 1]}: ${words}.`;
    const few = last <= 12;
    const trace = heat(z, names, names, z.map((line, i) => line.map((value, j) => (value === null ? "" : `after ${names[i]}: ${fixed(value, 1)} % on ${names[j]}`))));
    const numbers = few ? z.flatMap((line, i) => line.map((value, j) => ({ x: names[j], y: names[i], text: value === null ? "" : fixed(value, narrow() ? 0 : 1), showarrow: false, font: { size: 12, color: value > 55 ? "#000000" : "#ffffff" } }))).filter((note) => note.text) : [];
    draw("chart-matrix", `Accuracy matrix of ${one.label}, up to task ${one.columns[at - 1]}`, [trace], {
      height: Math.min(520, 130 + 44 * last), annotations: numbers, xaxis: { title: { text: narrow() ? "accuracy on task" : "accuracy on" }, showgrid: false, type: "category", ...(few ? ticks : {}) },
      yaxis: { title: { text: "after" }, autorange: "reversed", showgrid: false, type: "category" },
      shapes: [{ type: "rect", x0: -0.5, x1: at - 0.5, y0: at - 1.5, y1: at - 0.5, line: { width: 2.5, color: "#D55E00" } }],
    });
    table("table-matrix", `Accuracy (%) of ${one.label}: rows after each task, columns on each task`, ["after", ...names], one.matrix.map((line, i) => [names[i], ...line.map((value) => (value === null ? null : fixed(value, 1)))]));
  }

  function timeline() {
    const lines = group().timelines;
    $("timeline").hidden = false;
    chosen.run = options("timeline-run", lines.map((one) => [one.run, one.name]), chosen.run || (lines.find((one) => group().series[one.series].method === "tfcsr") || {}).run);
    const one = lines.find((each) => each.run === chosen.run);
    for (const id of ["timeline-run", "timeline-part"]) $(id).closest("label").hidden = !one;
    $("chart-timeline").closest("figure").hidden = !one;
    if (!one) { $("timeline-words").textContent = "No run here has probed its buffer."; return; }
    const parts = [["per_task", "task"], ["per_class", "class"]].filter(([key]) => one[key]);
    chosen.part = options("timeline-part", parts, chosen.part);
    $("timeline-part").closest("label").hidden = !parts.length;
    const starts = one.epochs.map((_, i) => one.epochs.slice(0, i).reduce((sum, value) => sum + value, 0));
    const total = starts[starts.length - 1] + one.epochs[one.epochs.length - 1];
    const passed = one.probes.filter((probe) => probe[4]).length;
    $("timeline-words").textContent = `${one.name}: ${one.probes.length} probes, ${passed} passed, ${one.probes.length - passed} failed${one.state === "complete" ? "" : ` so far (${one.state})`}.`;
    const few = one.epochs.length <= (narrow() ? 6 : 14);
    const names = one[chosen.part + "_names"] || [];
    const found = one[chosen.part] || [];
    const kind = chosen.part === "per_task" ? "task" : "class";
    const notes = one.probes.map(([, task, epoch, recall, ok, next], i) => {
      const each = found.length <= 12 ? found.map((row, j) => (row[i] === null ? "" : `${kind} ${names[j]}: ${row[i]} %`)).filter(Boolean).join("<br>") : "";
      const due = next === null ? "" : `<br>next due after epoch ${next} (gap ${next - epoch})`;
      return `task ${task}, after epoch ${epoch}<br><b>recall ${fixed(recall, 1)} %: ${ok ? "passed" : "failed"}</b>${due}${each && "<br>" + each}`;
    });
    const blue = colour("#0072B2"), red = dark() ? "#ff8c42" : "#D55E00";
    const gaps = [1, 0].map((ok) => {
      const x = [], y = [];
      for (const [at, task, , recall, good, next] of one.probes) {
        if (good !== ok || next === null) continue;
        x.push(at, Math.min(starts[task - 1] + next, starts[task - 1] + one.epochs[task - 1]), null);
        y.push(recall, recall, null);
      }
      return { type: "scatter", mode: "lines", x, y, line: { color: ok ? blue : red, width: 2 }, opacity: 0.6, hoverinfo: "skip" };
    });
    const marks = [1, 0].map((ok) => {
      const which = one.probes.map((_, i) => i).filter((i) => one.probes[i][4] === ok);
      return {
        type: "scatter", mode: "markers", name: ok ? "passed" : "failed", x: which.map((i) => one.probes[i][0]), y: which.map((i) => one.probes[i][3]), text: which.map((i) => notes[i]), hovertemplate: "%{text}<extra></extra>",
        marker: { color: ok ? blue : red, size: 9, symbol: ok ? "circle" : "x-thin", line: { width: ok ? 0 : 2.5, color: ok ? blue : red } },
      };
    });
    const low = Math.min(one.threshold === null ? 100 : one.threshold, ...one.probes.map((probe) => probe[3]));
    const shapes = one.epochs.map((epochs, i) => ({ type: "rect", layer: "below", yref: "paper", y0: 0, y1: 1, x0: starts[i], x1: starts[i] + epochs, line: { width: 0 }, fillcolor: i % 2 ? "rgba(128,128,128,0)" : "rgba(128,128,128,0.13)" }));
    const annotations = few ? one.epochs.map((epochs, i) => ({ x: starts[i] + epochs / 2, y: 1, yref: "paper", yanchor: "bottom", text: narrow() ? String(i + 1) : `task ${i + 1}`, showarrow: false })) : [];
    if (one.threshold !== null) {
      shapes.push({ type: "line", x0: 0, x1: total, y0: one.threshold, y1: one.threshold, line: { width: 1.2, dash: "dot", color: dark() ? "#cccccc" : "#444444" } });
      annotations.push({ x: total, y: one.threshold, xanchor: "right", yanchor: "top", text: `threshold ${one.threshold} %`, showarrow: false, font: { size: 12 } });
    }
    const edges = [...one.probes.map((probe) => probe[0]), Math.max(total, one.probes[one.probes.length - 1][0] + 1)];
    const words = found.map((row, j) => row.map((value, i) => (value === null ? "" : `${kind} ${names[j]}: ${value} %<br>task ${one.probes[i][1]}, after epoch ${one.probes[i][2]}`)));
    const has = found.length > 0;
    const map = has ? [heat(found, edges, names.map((value) => `${kind} ${value}`), words, { yaxis: "y2", xgap: 0, ygap: found.length > 40 ? 0 : 1, colorbar: { thickness: 10, len: 0.42, y: 0.2, outlinewidth: 0, ticksuffix: " %", dtick: 50, xpad: 4 } })] : [];
    const below = has ? Math.min(460, Math.max(150, 22 * found.length)) : 0;
    const height = 330 + below, share = has ? below / (height - 60) : 0;
    draw("chart-timeline", `Recall timeline of ${one.name}: ${one.probes.length} probes over ${total} epochs and ${one.epochs.length} tasks`, [...gaps, ...marks, ...map], {
      height, shapes, annotations, margin: { l: 52, r: 12, t: 26, b: 44 },
      xaxis: { title: { text: "epoch over the whole sequence" }, range: [0, total], showgrid: false, anchor: has ? "y2" : "y", zeroline: false },
      yaxis: { title: { text: "recall (%)" }, range: [Math.max(-3, low - 10), 103], domain: [has ? share + 0.05 : 0, 1] },
      ...(has ? { yaxis2: { domain: [0, share], autorange: "reversed", type: "category", showgrid: false } } : {}),
    });
    table("table-timeline", `Probes of ${one.name}`, ["task", "epoch", "recall %", "passed", "next due", "gap", ...(found.length <= 20 ? names.map((value) => `${kind} ${value}`) : [])],
      one.probes.map(([, task, epoch, recall, ok, next], i) => [task, epoch, fixed(recall, 1), ok ? "yes" : "no", next, next === null ? null : next - epoch, ...(found.length <= 20 ? found.map((row) => row[i]) : [])]));
  }

  function retention() {
    const one = pick("retention-series", "kept", (each) => each.retention !== null);
    $("retention").hidden = !one;
    if (!one) return;
    const { classes, tasks, rows: z } = one.retention;
    const names = classes.map((label) => `class ${label}`);
    const after = one.columns.map((task) => `task ${task}`);
    const ticks = narrow() && after.length <= 12 ? { tickvals: after, ticktext: one.columns.map(String) } : {};
    const fell = classes.map((label, i) => { const known = z[i].filter((value) => value !== null); return [label, tasks[i], Math.max(...known), known[known.length - 1]]; }).filter((entry) => entry[2] - entry[3] >= 1).sort((a, b) => b[2] - b[3] - (a[2] - a[3]));
    $("retention-words").textContent = fell.length ? `Most forgotten: ${fell.slice(0, 3).map(([label, task, best, end]) => `class ${label} of task ${task} (${best} % at best, ${end} % at the end)`).join(", ")}.` : "No class lost a point.";
    draw("chart-retention", `Accuracy of ${one.label} on each of ${classes.length} classes after each task`, [heat(z, after, names, z.map((row, i) => row.map((value, j) => (value === null ? "" : `class ${classes[i]} (task ${tasks[i]})<br>after ${after[j]}: ${value} %`))), { ygap: classes.length > 40 ? 0 : 1 })], {
      height: 80 + Math.min(640, Math.max(180, 24 * classes.length)), xaxis: { title: { text: narrow() ? "after task" : "after" }, type: "category", showgrid: false, ...ticks }, yaxis: { autorange: "reversed", type: "category", showgrid: false },
    });
    table("table-retention", `Accuracy (%) of ${one.label} on each class after each task`, ["class", "its task", ...after], classes.map((label, i) => [String(label), tasks[i], ...z[i]]));
  }

  function cost() {
    const kind = $("cost-kind").value;
    const series = visible().filter((one) => one.accuracy !== null && one.cost[kind] !== null);
    const front = series.filter((one) => one.front.includes(kind)).sort((a, b) => a.cost[kind] - b.cost[kind] || a.accuracy[0] - b.accuracy[0]);
    const widest = Math.max(1e-9, ...series.map((one) => one.cost[kind]));
    // Names at one place would run into each other: the first of a cluster carries them all.
    const named = new Map();
    for (const one of [...front, ...(series.length > 14 ? [] : series.filter((each) => !front.includes(each)))]) {
      const near = [...named.keys()].find((other) => Math.abs(other.cost[kind] - one.cost[kind]) < widest * (narrow() ? 0.4 : 0.14) && Math.abs(other.accuracy[0] - one.accuracy[0]) < 6);
      if (near) named.get(near).push(one.label); else named.set(one, [one.label]);
    }
    const names = (one) => text(short(named.get(one).slice(0, 3).join(" · ") + (named.get(one).length > 3 ? " …" : ""), narrow() ? 18 : 48));
    const place = (one) => (one.cost[kind] > widest * (narrow() ? 0.45 : 0.75) ? "bottom left" : "bottom right");
    draw("chart-cost", `Final accuracy against ${COSTS[kind]} of ${series.length} series`, [
      { type: "scatter", mode: "lines", x: front.map((one) => one.cost[kind]), y: front.map((one) => one.accuracy[0]), line: { shape: "hv", color: dark() ? "#999999" : "#777777", width: 1.5, dash: "dot" }, hoverinfo: "skip" },
      ...series.map((one) => ({
        type: "scatter", mode: named.has(one) ? "markers+text" : "markers", x: [one.cost[kind]], y: [one.accuracy[0]],
        error_y: { type: "data", array: [one.accuracy[2] === null ? 0 : one.accuracy[2] - one.accuracy[0]], color: colour(one.colour), thickness: 1.3 },
        marker: { color: colour(one.colour), size: 11, symbol: SYMBOLS[one.variant % SYMBOLS.length] + (one.upper_bound ? "-open" : ""), line: { width: one.upper_bound ? 2 : 0, color: colour(one.colour) } },
        text: [named.has(one) ? names(one) : ""], textposition: place(one), cliponaxis: false, customdata: [`<b>${text(one.label)}</b>${one.upper_bound ? " (upper bound, outside the race)" : ""}<br>${estimate(one.accuracy)}<br>${one.cost[kind].toLocaleString("en")} ${COSTS[kind]}`], hovertemplate: "%{customdata}<extra></extra>",
      })),
    ], { height: narrow() ? 340 : 420, xaxis: { title: { text: COSTS[kind] }, range: [-0.05 * widest, 1.08 * widest], zeroline: false }, yaxis: { title: { text: "final accuracy (%)" }, range: [0, 105] } });
    table("table-cost", "Mean cost of a run, and final accuracy", ["series", "accuracy %", ...Object.values(COSTS), "not beaten in"],
      group().series.map((one) => [one.label, one.accuracy ? fixed(one.accuracy[0]) : null, ...Object.keys(COSTS).map((key) => (one.cost[key] === null ? null : one.cost[key].toLocaleString("en"))), one.front.map((key) => COSTS[key]).join(", ")]));
  }

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
      place.replaceChildren(...shown.flatMap((one) => one.series.map((each, j) => {
        const numbers = [...new Set(seeds.get([data.groups.indexOf(one), j].join()) || [])].sort((a, b) => a - b);
        const commands = each.command === null ? element("p", {}, `No command repeats it as it is: ${each.why_no_command}`) : element("pre", {}, numbers.map((seed) => `${each.command} --seed ${seed}`).join("\n"));
        const fields = Object.entries(each.spec).sort((a, b) => each.given.includes(b[0]) - each.given.includes(a[0]));
        const lines = fields.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value), element("td", { className: "quiet" }, each.given.includes(name) ? "given" : "default")));
        const made = element("details", { open: open.has(each.label) }, element("summary", {}, `${each.label}: ${each.runs} ${each.runs === 1 ? "run" : "runs"}`), commands, element("div", { className: "scroll" }, element("table", {}, element("caption", {}, "The spec, but for the seed"), element("tbody", {}, ...lines))));
        made.dataset.label = each.label;
        return made;
      })));
    }
    const label = (run) => (run.home ? data.groups[run.home[0]].series[run.home[1]].label : "");
    table("table-runs", `${data.runs.length} runs`, ["run", "series", "seed", "state", "final accuracy %"], data.runs.map((run) => [run.name, label(run), run.seed === undefined ? null : run.seed, run.state === "complete" ? "complete" : `${run.state}: ${run.words || ""}`, run.accuracy === undefined ? null : fixed(run.accuracy)]));
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
    source.addEventListener("open", () => { said.hidden = true; said.className = ""; });
    source.addEventListener("message", (message) => { data = JSON.parse(message.data); render(); });
    source.addEventListener("error", () => {
      said.hidden = false;
      said.className = "lost";
      said.textContent = "Not connected: what is shown may be old. Trying again.";
      if (source.readyState === EventSource.CLOSED) { setTimeout(listen, 2000); }  // else the browser tries by itself
    });
  }

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  theme(system.matches ? "dark" : "light");
  system.addEventListener("change", () => { theme(system.matches ? "dark" : "light"); render(); });
  $("theme").addEventListener("click", () => { theme(dark() ? "light" : "dark"); render(); });
  $("group").addEventListener("change", (event) => { Object.assign(chosen, { group: event.target.value, hidden: new Set(), matrix: null, task: null, run: null, kept: null }); $("series").dataset.key = ""; render(); });
  $("matrix-series").addEventListener("change", (event) => { chosen.matrix = event.target.value; matrix(); });
  $("matrix-task").addEventListener("input", (event) => { chosen.task = Number(event.target.value); matrix(); });
  $("timeline-run").addEventListener("change", (event) => { chosen.run = event.target.value; timeline(); });
  $("timeline-part").addEventListener("change", (event) => { chosen.part = event.target.value; timeline(); });
  $("retention-series").addEventListener("change", (event) => { chosen.kept = event.target.value; retention(); });
  $("cost-kind").addEventListener("change", cost);
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (width < 560 !== window.innerWidth < 560) render(); width = window.innerWidth; });
  let before = null;
  window.addEventListener("beforeprint", () => {  // on paper: light, nothing folded away
    before = { theme: document.documentElement.dataset.theme, closed: [...document.querySelectorAll("details:not([open])")] };
    printing = true;
    theme("light");
    before.closed.forEach((each) => { each.open = true; });
    render();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    theme(before.theme);
    before.closed.forEach((each) => { each.open = false; });
    render();
  });
  render();
  if (data.live) listen();
})();
