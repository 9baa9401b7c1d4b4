// What every chart needs. Names come from files of others: they enter the page as text, never as markup, and what
// Plotly would read as markup is escaped for it.

const $ = (id) => document.getElementById(id);
const DASH = { "-": "solid", "--": "dash", "-.": "dashdot", ":": "dot" };
const SVG_DASH = { "-": "", "--": "6 3", "-.": "6 2 1.5 2", ":": "1.5 2.5" };
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon"];
// On a dark ground black and the darker greys and blues would be lost.
const ON_DARK = { "#000000": "#f2f2f2", "#666666": "#a8a8a8", "#0072B2": "#3f9fe0", "#888888": "#b5b5b5" };
const MOST_BANDS = 10; // more of them hide each other
const COSTS = {
  replay_batches: "replay batches",
  memory_checks: "memory checks",
  seconds: "seconds a run",
  buffer_bytes: "bytes of buffer",
};
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false, typesetMath: false };
const chosen = { hidden: new Set(), task: null }; // what the reader chose; kept when new data come
let data = JSON.parse($("data").textContent);
let printing = false;

const text = (value) => String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const fixed = (value, digits = 2) =>
  value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
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
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function table(id, caption, head, rows) {
  const place = $(id);
  const numeric = head.map(
    (_, i) => i > 0 && rows.every((row) => typeof row[i] !== "string" || /^[−+\d–]/.test(row[i])),
  );
  const cell = (tag, value, i) =>
    element(tag, numeric[i] ? { className: "number" } : {}, value === null ? "–" : String(value));
  const header = element(
    "tr",
    {},
    ...head.map((value, i) => {
      const th = cell("th", value, i);
      th.scope = "col";
      return th;
    }),
  );
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      ...row.map((value, i) => {
        if (i) return cell("td", value, i);
        const th = cell("th", value, i);
        th.scope = "row";
        return th;
      }),
    ),
  );
  place.replaceChildren(
    element("table", {}, element("caption", {}, caption), element("thead", {}, header), element("tbody", {}, ...body)),
  );
  place.tabIndex = 0;
  place.setAttribute("role", "region");
  place.setAttribute("aria-label", caption);
}

function options(id, entries, value) {
  const select = $(id);
  const key = JSON.stringify(entries);
  if (select.dataset.key !== key) {
    // else left alone: somebody may have it open
    select.replaceChildren(...entries.map(([value, label]) => element("option", { value }, label)));
    select.dataset.key = key;
  }
  select.value = entries.some(([one]) => one === value) ? value : entries.length ? entries[0][0] : "";
  return select.value;
}

function draw(id, words, traces, layout) {
  const style = getComputedStyle(document.documentElement);
  const [fore, line, back] = printing
    ? ["#1b1d1f", "#d5d9dd", "#ffffff"]
    : ["--text", "--line", "--back"].map((name) => style.getPropertyValue(name).trim());
  const axis = {
    gridcolor: line,
    linecolor: line,
    zerolinecolor: line,
    automargin: true,
    fixedrange: true,
    title: { standoff: 8 },
  };
  const full = {
    font: { family: "system-ui, sans-serif", size: 13, color: fore },
    paper_bgcolor: back,
    plot_bgcolor: back,
    margin: { l: 52, r: 12, t: 12, b: 44 },
    showlegend: false,
    dragmode: false,
    hovermode: "closest",
    autosize: true,
    hoverlabel: { bgcolor: back, bordercolor: fore, font: { color: fore, size: 13 }, align: "left" },
    ...layout,
  };
  if (printing) Object.assign(full, { width: $(id).closest(".pair") ? 330 : 680, autosize: false });
  for (const name of Object.keys(full).filter((key) => /^[xy]axis/.test(key))) {
    const own = full[name];
    full[name] = { ...axis, ...own, title: { ...axis.title, ...(own.title || {}) } };
  }
  const chart = $(id);
  chart.style.height = full.height + "px"; // before it is drawn, so that nothing below jumps
  chart.setAttribute("aria-label", words);
  Plotly.react(chart, traces, full, CONFIG);
}

const estimate = (value) =>
  value === null
    ? "none yet"
    : value[1] === null
      ? `${fixed(value[0])} % (n = ${value[3]}, no interval)`
      : `${fixed(value[0])} % (${fixed(value[1])} to ${fixed(value[2])}, n = ${value[3]})`;
