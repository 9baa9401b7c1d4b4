// What every chart needs. Names come from files of others: they enter the page as text, never as markup, and what
// Plotly would read as markup is escaped for it.

const $ = (id) => document.getElementById(id);
const DASH = { "-": "solid", "--": "dash", "-.": "dashdot", ":": "dot" };
const SVG_DASH = { "-": "", "--": "6 3", "-.": "6 2 1.5 2", ":": "1.5 2.5" };
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon"];
const ON_DARK = { "#000000": "#f2f2f2", "#666666": "#a8a8a8" };
// From 0 to 100 %: one quiet hue, away from the ground, and never as pale as a field that holds nothing.
const HEAT = {
  light: [[0, "#dde4ea"], [0.5, "#9cb5cb"], [1, "#2f608c"]],
  dark: [[0, "#2b323a"], [0.5, "#3c5a75"], [1, "#74a3ca"]],
};
const MOST_BANDS = 10; // more of them hide each other
const COSTS = {
  optimizer_steps: "optimizer steps",
  samples_seen: "samples seen",
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
const counted = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const signed = (value) => (value > 0 ? "+" : "") + fixed(value);
const dark = () => !printing && document.documentElement.dataset.theme === "dark";
// On a dark ground the darker colours would be lost: the darker, the more white they get, so that none become alike.
function colour(value) {
  if (!dark()) return value;
  if (ON_DARK[value]) return ON_DARK[value];
  const parts = channels(value);
  const light = (0.21 * parts[0] + 0.72 * parts[1] + 0.07 * parts[2]) / 255;
  const white = Math.max(0, 0.55 - light);
  return hex(parts.map((part) => part + white * (255 - part)));
}
const group = () => data.groups.find((one) => one.name === chosen.group) || data.groups[0];
const visible = () => (group() ? group().series.filter((one) => !chosen.hidden.has(one.label)) : []);
const narrow = () => window.innerWidth < 560 && !printing;
const short = (value, most) => (value.length > most ? value.slice(0, most - 1) + "…" : value);

const channels = (value) => [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
const hex = (parts) => "#" + parts.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("");
function heat_colour(percent) {
  const stops = HEAT[dark() ? "dark" : "light"];
  const at = Math.min(1, Math.max(0, percent / 100));
  const i = Math.min(stops.length - 2, stops.filter(([place]) => place <= at).length - 1);
  const share = (at - stops[i][0]) / (stops[i + 1][0] - stops[i][0]);
  const [from, to] = [channels(stops[i][1]), channels(stops[i + 1][1])];
  return hex(from.map((part, k) => part + share * (to[k] - part)));
}
// Black or white, whichever has more contrast (as WCAG counts it) on this colour.
function ink(value) {
  const [r, g, b] = channels(value).map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A mean and half its interval, each in a column of its own width, so that points stand under points.
function spread(value, { sign = false, strong = false } = {}) {
  const mean = sign ? signed(value[0]) : fixed(value[0]);
  const half = value[2] === null ? "" : `±${fixed(value[2] - value[0])}`;
  return element(
    "span",
    { className: "estimate" },
    element(strong ? "strong" : "span", {}, mean),
    " ",
    element("span", { className: "half" }, half),
  );
}

function table(id, caption, head, rows) {
  const place = $(id);
  const number = (value) => value === null || typeof value !== "string" || /^[−+\d–]/.test(value);
  const numeric = head.map((_, i) => i > 0 && rows.every((row) => number(row[i])));
  // Long words get room: else they would stand in a tower, as narrow as a number.
  const long = head.map((_, i) => rows.some((row) => typeof row[i] === "string" && row[i].length > 24));
  const cell = (tag, value, i) =>
    element(
      tag,
      { className: numeric[i] ? "number" : long[i] ? "long" : "" },
      value instanceof Node ? value : value === null ? "–" : String(value),
    );
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
    element("table", {}, element("caption", {}, element("span", {}, caption)), element("thead", {}, header), element("tbody", {}, ...body)),
  );
  place.setAttribute("role", "region");
  place.setAttribute("aria-label", caption);
  scrolls(place);
}

// A table that does not show all it has says so: in words below it, and by a shadow where there is more.
function scrolls(place) {
  if (!place.hint) {
    const box = element("div", { className: "box" });
    place.hint = element("p", { className: "hint", hidden: true });
    place.replaceWith(box, place.hint);
    box.append(place);
    place.addEventListener("scroll", () => more(place), { passive: true });
    sizes.observe(place);
  }
  if (place.firstElementChild) sizes.observe(place.firstElementChild);
}
const sizes = new ResizeObserver((entries) => {
  for (const place of new Set(entries.map((entry) => entry.target.closest(".scroll")))) if (place) more(place);
});
function more(place) {
  const wide = place.scrollWidth > place.clientWidth + 2,
    high = place.scrollHeight > place.clientHeight + 2;
  const edges = place.parentElement.classList;
  edges.toggle("more-right", place.scrollLeft + place.clientWidth < place.scrollWidth - 2);
  edges.toggle("more-below", place.scrollTop + place.clientHeight < place.scrollHeight - 2);
  const rows = place.querySelectorAll("tbody tr").length;
  const said = [high ? `↓ ${rows} rows: scroll down in the table` : "", wide ? "→ more columns: scroll sideways" : ""];
  const words = said.filter(Boolean).join("; ");
  if (place.hint.textContent !== words) place.hint.textContent = words;
  place.hint.hidden = !words;
  // Only what scrolls is a stop for the keyboard.
  if (words) place.tabIndex = 0;
  else place.removeAttribute("tabindex");
}

function swatch(one) {
  const made = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const svg = made("svg", { width: 26, height: 8, "aria-hidden": "true" });
  svg.append(
    made("path", {
      d: "M0 4H26",
      stroke: colour(one.colour),
      "stroke-width": 2.5,
      "stroke-dasharray": SVG_DASH[one.line],
    }),
  );
  return svg;
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

const page_colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function draw(id, words, traces, layout) {
  const [fore, line, back] = ["--text", "--line", "--back"].map(page_colour);
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
      : `${fixed(value[0])} % ±${fixed(value[2] - value[0])} (95 %, n = ${value[3]})`;
// What is drawn of an interval in percent ends where percent end.
const inside = (value) => Math.min(100, Math.max(0, value));
const bars = (value, more) => ({
  type: "data",
  symmetric: false,
  array: [value[2] === null ? 0 : inside(value[2]) - value[0]],
  arrayminus: [value[1] === null ? 0 : value[0] - inside(value[1])],
  ...more,
});
