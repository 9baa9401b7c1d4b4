// The recall timeline: the picture this project is about.

function timeline() {
  const lines = group().timelines;
  $("timeline").hidden = false;
  chosen.run = options(
    "timeline-run",
    lines.map((one) => [one.run, one.name]),
    chosen.run || (lines.find((one) => group().series[one.series].example) || {}).run,
  );
  const one = lines.find((each) => each.run === chosen.run);
  for (const id of ["timeline-run", "timeline-part"]) $(id).closest("label").hidden = !one;
  $("chart-timeline").closest("figure").hidden = !one;
  if (!one) {
    $("timeline-words").textContent = "No run here has probed its buffer.";
    return;
  }
  const parts = [
    ["per_task", "task"],
    ["per_class", "class"],
  ].filter(([key]) => one[key]);
  chosen.part = options("timeline-part", parts, chosen.part);
  $("timeline-part").closest("label").hidden = !parts.length;
  const starts = one.epochs.map((_, i) => one.epochs.slice(0, i).reduce((sum, value) => sum + value, 0));
  const total = starts[starts.length - 1] + one.epochs[one.epochs.length - 1];
  const passed = one.probes.filter((probe) => probe[4]).length;
  const so_far = one.state === "complete" ? "" : ` so far (${one.state})`;
  $("timeline-words").textContent =
    `${one.name}: ${one.probes.length} probes, ${passed} passed, ${one.probes.length - passed} failed${so_far}.`;
  const few = one.epochs.length <= (narrow() ? 6 : 14);
  const names = (one[chosen.part + "_names"] || []).map((value) =>
    chosen.part === "per_task" ? `task ${value}` : called(one.names, value),
  );
  const found = one[chosen.part] || [];
  const notes = one.probes.map(([, task, epoch, recall, ok, next], i) => {
    const each =
      found.length <= 12
        ? found
            .map((row, j) => (row[i] === null ? "" : `${text(names[j])}: ${row[i]} %`))
            .filter(Boolean)
            .join("<br>")
        : "";
    const due = next === null ? "" : `<br>next due after epoch ${next} (gap ${next - epoch})`;
    const judged = `<b>recall ${fixed(recall, 1)} %: ${ok ? "passed" : "failed"}</b>`;
    return `task ${task}, after epoch ${epoch}<br>${judged}${due}${each && "<br>" + each}`;
  });
  const blue = colour("#0072B2"),
    red = dark() ? "#ff8c42" : "#D55E00";
  const gaps = [1, 0].map((ok) => {
    const x = [],
      y = [];
    for (const [at, task, , recall, good, next] of one.probes) {
      if (good !== ok || next === null) continue;
      x.push(at, Math.min(starts[task - 1] + next, starts[task - 1] + one.epochs[task - 1]), null);
      y.push(recall, recall, null);
    }
    return {
      type: "scatter",
      mode: "lines",
      x,
      y,
      line: { color: ok ? blue : red, width: 2 },
      opacity: 0.6,
      hoverinfo: "skip",
    };
  });
  const marks = [1, 0].map((ok) => {
    const which = one.probes.map((_, i) => i).filter((i) => one.probes[i][4] === ok);
    return {
      type: "scatter",
      mode: "markers",
      name: ok ? "passed" : "failed",
      x: which.map((i) => one.probes[i][0]),
      y: which.map((i) => one.probes[i][3]),
      text: which.map((i) => notes[i]),
      hovertemplate: "%{text}<extra></extra>",
      marker: {
        color: ok ? blue : red,
        size: 9,
        symbol: ok ? "circle" : "x-thin",
        line: { width: ok ? 0 : 2.5, color: ok ? blue : red },
      },
    };
  });
  const low = Math.min(one.threshold === null ? 100 : one.threshold, ...one.probes.map((probe) => probe[3]));
  const shapes = one.epochs.map((epochs, i) => ({
    type: "rect",
    layer: "below",
    yref: "paper",
    y0: 0,
    y1: 1,
    x0: starts[i],
    x1: starts[i] + epochs,
    line: { width: 0 },
    fillcolor: i % 2 ? "rgba(128,128,128,0)" : "rgba(128,128,128,0.13)",
  }));
  const annotations = few
    ? one.epochs.map((epochs, i) => ({
        x: starts[i] + epochs / 2,
        y: 1,
        yref: "paper",
        yanchor: "bottom",
        text: narrow() ? String(i + 1) : `task ${i + 1}`,
        showarrow: false,
      }))
    : [];
  if (one.threshold !== null) {
    shapes.push({
      type: "line",
      x0: 0,
      x1: total,
      y0: one.threshold,
      y1: one.threshold,
      line: { width: 1.2, dash: "dot", color: dark() ? "#cccccc" : "#444444" },
    });
    annotations.push({
      x: total,
      y: one.threshold,
      xanchor: "right",
      yanchor: "top",
      text: `threshold ${one.threshold} %`,
      showarrow: false,
      font: { size: 12 },
    });
  }
  const edges = [...one.probes.map((probe) => probe[0]), Math.max(total, one.probes[one.probes.length - 1][0] + 1)];
  const words = found.map((row, j) =>
    row.map((value, i) =>
      value === null
        ? ""
        : `${text(names[j])}: ${value} %<br>task ${one.probes[i][1]}, after epoch ${one.probes[i][2]}`,
    ),
  );
  const has = found.length > 0;
  const map = has
    ? [
        heat(
          found,
          edges,
          on_axis(names),
          words,
          {
            yaxis: "y2",
            xgap: 0,
            ygap: found.length > 40 ? 0 : 1,
            colorbar: { thickness: 10, len: 0.42, y: 0.2, outlinewidth: 0, ticksuffix: " %", dtick: 50, xpad: 4 },
          },
        ),
      ]
    : [];
  const below = has ? Math.min(460, Math.max(150, 22 * found.length)) : 0;
  const height = 330 + below,
    share = has ? below / (height - 60) : 0;
  draw(
    "chart-timeline",
    `Recall timeline of ${one.name}: ${one.probes.length} probes over ${total} epochs and ${one.epochs.length} tasks`,
    [...gaps, ...marks, ...map],
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
        range: [Math.max(-3, low - 10), 103],
        domain: [has ? share + 0.05 : 0, 1],
      },
      ...(has ? { yaxis2: { domain: [0, share], autorange: "reversed", type: "category", showgrid: false } } : {}),
    },
  );
  table(
    "table-timeline",
    `Probes of ${one.name}`,
    [
      "task",
      "epoch",
      "recall %",
      "passed",
      "next due",
      "gap",
      ...(found.length <= 20 ? names : []),
    ],
    one.probes.map(([, task, epoch, recall, ok, next], i) => [
      task,
      epoch,
      fixed(recall, 1),
      ok ? "yes" : "no",
      next,
      next === null ? null : next - epoch,
      ...(found.length <= 20 ? found.map((row) => row[i]) : []),
    ]),
  );
}
