// SPDX-License-Identifier: Apache-2.0
// Draws the report's plots from the document inside the page, in the colours of its style sheet; no network.
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const root = document.documentElement;
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 760px)");
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const seriesColour = (index) => colour(`--series-${(index % 8) + 1}`);

  const axis = (title, extra = {}) => ({
    title: { text: title, font: { size: 12 }, standoff: 8 },
    gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false, ticks: "", automargin: true,
    nticks: narrow.matches ? 5 : 7, fixedrange: narrow.matches, ...extra,
  });
  const layout = (x, y, extra = {}) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--muted") },
    margin: { l: 46, r: 12, t: 10, b: 40 }, xaxis: x, yaxis: y, showlegend: false, hovermode: "closest",
    hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: colour("--ink") } },
    dragmode: narrow.matches ? false : "zoom", ...extra,
  });
  const options = { responsive: true, displayModeBar: false, displaylogo: false };

  // Time in the unit that a reader would choose for the longest run.
  const unitOf = (seconds) => (seconds > 2 * 3600 ? ["hours", 3600] : seconds > 180 ? ["minutes", 60] : ["seconds", 1]);
  const [timeUnit, timeScale] = unitOf(Math.max(0, ...report.runs.map((run) => run.duration_s || 0)));
  const xOf = { frames: (v) => v, time_s: (v) => (v === null ? null : v / timeScale) };
  const xTitle = { frames: "emulated frames", time_s: `wall time, ${timeUnit}` };

  const curves = (x, y) => report.runs.flatMap((run, index) => {
    if (!run.curves[y] || !run.curves[x]) return [];
    return [{
      // A short curve may hold a single point, which a line alone would not show.
      type: "scatter", mode: run.curves[y].filter((v) => v !== null).length < 8 ? "lines+markers" : "lines", name: run.label,
      x: run.curves[x].map(xOf[x]), y: run.curves[y], connectgaps: false,
      line: { color: seriesColour(index), width: 2 },
      hovertemplate: `%{y:.5~g}<br>%{x:.4~s} ${x === "frames" ? "frames" : timeUnit}<extra>${report.runs.length > 1 ? run.label : ""}</extra>`,
    }];
  });

  // Levels of random and human play, where all runs share one environment and the level would not flatten the curve.
  const levels = (traces) => {
    if (new Set(report.runs.map((run) => run.environment)).size !== 1) return [];
    const evaluation = report.runs.map((run) => run.evaluation).find((value) => value);
    if (!evaluation) return [];
    const values = traces.flatMap((trace) => trace.y).filter((value) => value !== null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const span = Math.max(high - low, 1);
    const named = [["random policy", evaluation.random && evaluation.random.mean], ["human", evaluation.human]];
    return named.filter(([, value]) => value !== null && value > low - span && value < high + 1.5 * span);
  };
  const levelLayout = (found) => ({
    shapes: found.map(([, value]) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value,
      line: { color: colour("--muted"), width: 1, dash: "dot" },
    })),
    annotations: found.map(([name, value]) => ({
      xref: "paper", x: 1, xanchor: "right", y: value, yanchor: "bottom", text: name, showarrow: false, font: { size: 11 },
      bgcolor: `${colour("--page")}e6`, borderpad: 1,
    })),
  });

  const draw = {
    curve(element) {
      const { x, y, title } = element.dataset;
      const traces = curves(x, y);
      const found = y === "mean_return" ? levels(traces) : [];
      // An invisible point at each level makes the axis reach it.
      traces.push(...found.map(([, value]) => ({
        type: "scatter", mode: "markers", x: [0], y: [value], marker: { opacity: 0 }, hoverinfo: "skip", showlegend: false,
      })));
      const zero = y === "fps" ? { rangemode: "tozero" } : {};
      const small = element.classList.contains("low");
      const extra = { ...levelLayout(found), showlegend: !small && report.runs.length > 1 };
      if (small) extra.margin = { l: 40, r: 8, t: 6, b: 36 };
      return [traces, layout(axis(xTitle[x], x === "frames" ? { tickformat: "~s" } : {}), axis(title, zero), extra)];
    },
    architecture_curves() {
      const [unit, scale] = unitOf(report.architectures.seconds || 0);
      const traces = report.architectures.architectures.flatMap(({ title, curve }, index) => {
        if (!curve) return [];
        const shared = { type: "scatter", mode: "lines", x: curve.time_s.map((v) => v / scale), legendgroup: title };
        const edge = { ...shared, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
        return [
          { ...edge, y: curve.min },
          { ...edge, y: curve.max, fill: "tonexty", fillcolor: `${seriesColour(index)}2b` },
          {
            ...shared, y: curve.median, name: title, line: { color: seriesColour(index), width: 2 },
            hovertemplate: `%{y:.4~g}<br>%{x:.3~g} ${unit}<extra>${title}</extra>`,
          },
        ];
      });
      return [traces, layout(axis(`wall time, ${unit}`), axis("return"), { showlegend: true })];
    },
    architecture_frames() {
      const found = report.architectures.architectures;
      const traces = found.flatMap(({ title, figures }, index) => {
        const figure = figures.frames_per_s;
        if (!figure) return [];
        const color = seriesColour(index);
        const marker = { type: "scatter", mode: "markers" };
        return [
          {
            ...marker, x: figure.values, y: figure.values.map(() => title), marker: { color, size: 9, opacity: 0.35 },
            hovertemplate: "%{x:,.0f}<extra>one seed</extra>",
          },
          {
            ...marker, x: [figure.median], y: [title],
            marker: { color, size: 12, line: { color: colour("--page"), width: 1.5 } }, hovertemplate: "%{x:,.0f}<extra>median</extra>",
          },
        ];
      });
      const titles = found.map(({ title }) => title.replace(" ", "<br>"));
      const y = axis("", {
        categoryorder: "array", categoryarray: found.map(({ title }) => title).reverse(), showgrid: false,
        range: [-0.6, found.length - 0.4], tickvals: found.map(({ title }) => title), ticktext: titles,
      });
      return [traces, layout(axis("frames/s", { rangemode: "tozero" }), y)];
    },
    memory(element) {
      const { time_s, owners } = report.runs[Number(element.dataset.run)].memory;
      const traces = owners.map((owner, index) => ({
        type: "scatter", mode: "lines", stackgroup: "owners", name: owner.name, x: time_s.map(xOf.time_s), y: owner.bytes,
        line: { color: seriesColour(index), width: 1 }, hovertemplate: "%{y:.3~s}B<extra>" + owner.name + "</extra>",
      }));
      const bytes = axis("bytes", { tickformat: "~s", rangemode: "tozero" });
      return [traces, layout(axis(xTitle.time_s), bytes, { showlegend: true })];
    },
    timeline(element) {
      const { run, unit } = element.dataset;
      const all = report.runs[Number(run)].timeline;
      const devices = [...new Set(all.map((row) => row.device))];  // a device has one colour in all plots
      const rows = all.filter((row) => row.unit === unit);
      const [timeName, scale] = unitOf(Math.max(...rows.map((row) => row.time_s[row.time_s.length - 1])));
      const traces = rows.map((row) => ({
        type: "scatter", mode: row.time_s.length < 8 ? "lines+markers" : "lines", name: row.device,
        x: row.time_s.map((v) => v / scale), y: row.values,
        line: { color: seriesColour(devices.indexOf(row.device)), width: 1.5 },
        hovertemplate: `%{y:.3~g} ${unit}<br>%{x:.3~g} ${timeName}<extra>${row.device}</extra>`,
      }));
      const y = axis(unit, unit === "%" ? { range: [0, 103] } : { rangemode: "tozero" });
      return [traces, layout(axis(`wall time, ${timeName}`), y, { showlegend: true })];
    },
    roofline(element) {
      const { ceilings, points } = report.runs[Number(element.dataset.run)].analysis.roofline;
      const ridge = ceilings.flops / ceilings.bytes_per_s;
      const intensities = [...points.map((point) => point.intensity), ridge];
      const [low, high] = [Math.min(...intensities) / 3, Math.max(...intensities) * 3];
      const traces = [
        {
          type: "scatter", mode: "lines", x: [low, ridge, high], y: [low * ceilings.bytes_per_s, ceilings.flops, ceilings.flops],
          line: { color: colour("--muted"), width: 1.5 }, hoverinfo: "skip",
        },
        {
          type: "scatter", mode: "markers", x: points.map((point) => point.intensity), y: points.map((point) => point.flops),
          text: points.map((point) => `${point.kernel}<br>${(100 * point.share).toFixed(0)} % of its ${point.bound} ceiling`),
          marker: { color: points.map((point) => seriesColour(point.bound === "memory" ? 0 : 1)), size: 9 },
          hovertemplate: "%{text}<extra></extra>",
        },
      ];
      // Labels at 1, 2 and 5 of each decade, or at the decades where those would crowd.
      const log = (format, decades) => ({
        type: "log", tickformat: format, nticks: undefined, dtick: decades > (narrow.matches ? 2 : 4) ? 1 : "D2",
      });
      const rates = points.map((point) => point.flops);
      const x = axis("operations per byte of device memory", log(".3~g", Math.log10(high / low)));
      const y = axis("operations per second", log("~s", Math.log10(ceilings.flops / Math.min(...rates))));
      return [traces, layout(x, y)];
    },
    evaluation(element) {
      const run = report.runs[Number(element.dataset.run)];
      const rows = [["agent", run.evaluation, seriesColour(Number(element.dataset.run))]];
      if (run.evaluation.random) rows.push(["random policy", run.evaluation.random, colour("--muted")]);
      const traces = rows.flatMap(([name, scores, color]) => [
        {
          type: "scatter", mode: "markers", x: scores.returns, hovertemplate: "%{x:.5~g}<extra>one episode</extra>",
          y: scores.returns.map((_, i) => name), marker: { color, size: 7, opacity: 0.28 },
        },
        {
          type: "scatter", mode: "markers", x: [scores.mean], y: [name], marker: { color, size: 11, line: { color: colour("--page"), width: 1.5 } },
          error_x: scores.ci95 ? {
            type: "data", symmetric: false, array: [scores.ci95[1] - scores.mean], arrayminus: [scores.mean - scores.ci95[0]],
            color, thickness: 2.5, width: 7,
          } : undefined,
          hovertemplate: "mean %{x:.5~g}<extra></extra>",
        },
      ]);
      const names = rows.map(([name]) => name);
      if (run.evaluation.human !== null) {
        names.push("human");
        traces.push({
          type: "scatter", mode: "markers", x: [run.evaluation.human], y: ["human"],
          marker: { color: colour("--ink"), size: 11, symbol: "diamond-open", line: { width: 2 } }, hovertemplate: "%{x:.5~g}<extra>published</extra>",
        });
      }
      const y = axis("", { categoryorder: "array", categoryarray: names.reverse(), showgrid: false, range: [-0.6, names.length - 0.4] });
      return [traces, layout(axis("episode return"), y)];
    },
  };

  const drawAll = () => document.querySelectorAll(".plot").forEach((element) => {
    const [traces, plotLayout] = draw[element.dataset.plot](element);
    Plotly.react(element, traces, plotLayout, options);
  });
  const setTheme = (theme) => { root.dataset.theme = theme; drawAll(); };
  document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  systemDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  narrow.addEventListener("change", drawAll);
  setTheme(systemDark.matches ? "dark" : "light");
})();
