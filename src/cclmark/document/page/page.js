"use strict";
// Draws the charts and the table of a page from its data. All text from the data is assigned to
// textContent, or passes escaped() if Plotly reads it as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = new Map((data.charts || []).map((chart) => [chart.key, chart]));
  data.rows = data.rows.map((row) => row.map((cell) => (Array.isArray(cell) ? data.texts[cell[0]] : cell)));
  const root = document.documentElement;

  // Okabe and Ito's colours, distinguishable with any colour vision; lighter ones on black.
  const THEMES = {
    light: {
      text: "#1c2430", soft: "#56606e", grid: "#e3e7ec", back: "rgba(0,0,0,0)", card: "#ffffff",
      colours: ["#0072b2", "#d55e00", "#009e73", "#b0468c", "#a07400", "#3b8fc4", "#444444", "#7a4fb5"],
      good: "#0b5cad", poor: "#f4f7fb", bad: "#c2410c", middle: "#f7f7f7", less: "#7a4fb5", more: "#a07400",
    },
    dark: {
      text: "#e6eaf0", soft: "#a4afbd", grid: "#2e3743", back: "rgba(0,0,0,0)", card: "#171c24",
      colours: ["#56b4e9", "#ff9a52", "#3fd0a2", "#f0a3d0", "#f0c94f", "#9ad1f5", "#d0d0d0", "#b48cf0"],
      good: "#4f9be8", poor: "#1c2733", bad: "#ff8a5c", middle: "#222a34", less: "#b48cf0", more: "#f0c94f",
    },
  };
  // One marker for every four colours, which are easy to distinguish: Plotly's name, and the path
  // for the legend. With DASHES, 96 curves are all different.
  const MARKS = [
    ["circle", "M18 6a4 4 0 1 1-8 0a4 4 0 1 1 8 0"], ["square", "M10.5 2.5h7v7h-7z"],
    ["diamond", "M14 1l5 5l-5 5l-5-5z"], ["triangle-up", "M14 1.5l4.8 8.5h-9.6z"],
    ["cross", "M12.3 1.5h3.4v2.8h2.8v3.4h-2.8v2.8h-3.4v-2.8h-2.8v-3.4h2.8z"], ["triangle-down", "M14 10.5l4.8-8.5h-9.6z"],
    ["pentagon", "M14 1.2l4.6 3.3l-1.8 5.5h-5.6l-1.8-5.5z"],
    ["star", "M14 .8l1.5 3.4l3.7.4l-2.8 2.5l.8 3.7l-3.2-1.9l-3.2 1.9l.8-3.7l-2.8-2.5l3.7-.4z"],
  ];
  const DASHES = {
    full: ["solid", "10px,3px,2px,3px", "12px,4px"], dashed: ["6px,4px", "6px,3px,2px,3px,2px,3px", "3px,3px"],
    faint: ["2px,3px", "8px,3px,2px,3px"],
  };
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  // Sizes on paper, in CSS pixels: two charts side by side, and two rows of them on a sheet.
  const PAPER = { half: 488, whole: 996, height: 228, most: 560, usual: 13, largest: 10, smallest: 5.5 };
  const logged = new Set(); // charts whose vertical axis the user switched
  const hidden = new Map(); // the curves that the user hid, by chart

  const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const text = (number) => (number === undefined || number === null ? "" : data.texts[number]);
  const shown = (value) =>
    value === null || value === undefined ? "" : Math.abs(value) >= 1000 ? value.toFixed(0)
      : Math.abs(value) >= 1 ? value.toFixed(2) : Number(value.toPrecision(3)).toString();

  function formatSize(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = 0;
    while (bytes >= 1024 && power < 4) { bytes /= 1024; power += 1; }
    return `${Number.isInteger(bytes) ? bytes : bytes.toPrecision(4)} ${units[power]}`;
  }

  // For any number of values: Math.min supports a limited number of arguments.
  const extremes = (values) => values.reduce(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

  // At most seven multiples of 1, 2 or 5 times a power of ten from low to high.
  function roundTicks(low, high, leastStep = 0) {
    const power = 10 ** Math.floor(Math.log10((high - low) / 4));
    const found = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= (high - low) / 6);
    const step = Math.max(leastStep, found);
    const ticks = [];
    for (let at = Math.ceil(low / step); at * step <= high; at += 1) ticks.push(Number((at * step).toPrecision(12)));
    return ticks;
  }

  function byteTicks(values) {
    const [least, most] = extremes(values);
    if (least === most) return { tickvals: [least], ticktext: [formatSize(least)] };
    if (most / least < 4 && !values.every((value) => Number.isInteger(Math.log2(value)))) {
      // Powers of two would be one or two ticks: round sizes instead.
      const unit = 1024 ** Math.floor(Math.log2(least) / 10);
      const ticks = roundTicks(least / unit, most / unit, 1 / unit).map((tick) => Math.round(tick * unit));
      return { tickvals: ticks, ticktext: ticks.map(formatSize) };
    }
    const low = Math.floor(Math.log2(least));
    const high = Math.ceil(Math.log2(most));
    const step = Math.max(1, Math.ceil((high - low) / 8));
    const ticks = [];
    for (let power = low; power <= high; power += step) ticks.push(2 ** power);
    return { tickvals: ticks, ticktext: ticks.map(formatSize) };
  }

  // The ticks of a logarithmic axis of values that may be less than a power of ten apart.
  function logTicks(values) {
    const [least, most] = extremes(values.filter((value) => value > 0));
    if (!(most >= least) || most / least >= 100) return { dtick: 1 };
    if (most / least >= 4) {
      const whole = []; // Plotly's own ticks between powers of ten are single digits
      for (let power = Math.floor(Math.log10(least)); 10 ** power <= most; power += 1) {
        whole.push(...[1, 2, 5].map((digit) => Number((digit * 10 ** power).toPrecision(12))));
      }
      return { tickvals: whole, ticktext: whole.map(String) };
    }
    const low = least / 1.15;
    const high = most * 1.15;
    const ticks = roundTicks(low, high);
    return { range: [Math.log10(low), Math.log10(high)], tickvals: ticks, ticktext: ticks.map(String) };
  }

  function theme() { return THEMES[root.dataset.theme] || THEMES.light; }

  function axis(colours, more) {
    return Object.assign({
      gridcolor: colours.grid, linecolor: colours.grid, zerolinecolor: colours.grid,
      tickfont: { color: colours.soft, size: 12 }, automargin: true, fixedrange: false,
    }, more);
  }

  function layout(colours, more) {
    return Object.assign({
      paper_bgcolor: colours.back, plot_bgcolor: colours.back, margin: { l: 56, r: 16, t: 8, b: 44 },
      font: { family: FONT, color: colours.text, size: 13 }, showlegend: true,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      hoverlabel: { align: "left", namelength: -1 }, hovermode: "closest",
    }, more);
  }

  const withAlpha = (hex, alpha) => {
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${parts.join(",")},${alpha})`;
  };

  // The look of one curve. ``fill``: of its marker, opaque so that it covers markers below.
  function lookOf(one, colours) {
    const number = one.colour || 0;
    if (one.faint) return { colour: number % 2 ? colours.text : colours.soft, dash: DASHES.faint[number % 2] };
    const palette = colours.colours;
    const colour = palette[number % palette.length];
    const turn = Math.floor(number / palette.length) % DASHES.full.length;
    return {
      colour, turn, mark: MARKS[Math.floor(number / 4) % MARKS.length],
      dash: DASHES[one.dashed ? "dashed" : "full"][turn], fill: one.dashed ? colours.card : colour,
    };
  }

  // Parts of a curve with a band, as [first, after the last]; a single point has no area to fill.
  function banded(one) {
    const parts = [];
    let begun = -1;
    for (let at = 0; at <= one.x.length; at += 1) {
      const known = at < one.x.length && Number.isFinite(one.low[at]) && Number.isFinite(one.high[at]);
      if (known && begun < 0) begun = at;
      if (!known && begun >= 0) { parts.push([begun, at]); begun = -1; }
    }
    return parts;
  }

  function bandOf(one, look) {
    const x = [], y = [];
    for (const [from, to] of banded(one).filter(([from, to]) => to - from > 1)) {
      x.push(...one.x.slice(from, to), ...one.x.slice(from, to).reverse(), null);
      y.push(...one.high.slice(from, to), ...one.low.slice(from, to).reverse(), null);
    }
    return {
      x, y, type: "scatter", mode: "lines", fill: "toself", fillcolor: withAlpha(look.colour, 0.16),
      line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    };
  }

  // Error bars of points whose neighbours have no interval.
  function barsOf(one, look) {
    const alone = new Set(banded(one).filter(([from, to]) => to - from === 1).map(([from]) => from));
    const part = (of) => one.x.map((_, at) => (alone.has(at) ? of(at) : 0));
    return {
      type: "data", symmetric: false, array: part((at) => one.high[at] - one.y[at]),
      arrayminus: part((at) => one.y[at] - one.low[at]), color: withAlpha(look.colour, 0.5),
      thickness: 1.5, width: 4, visible: alone.size > 0,
    };
  }

  function drawnLines(chart, colours) {
    const traces = [];
    const isBytes = (chart.x_kind || "bytes") === "bytes";
    const all = chart.series.flatMap((one) => one.x);
    // Hollow markers over larger filled ones: both are visible if two points coincide.
    const depth = (one) => (one.faint ? 0 : one.dashed ? 2 : 1);
    const inOrder = chart.series.map((one, at) => [one, at]).sort(([a], [b]) => depth(a) - depth(b));
    for (const [one, at] of inOrder) {
      const look = lookOf(one, colours);
      const group = escaped(one.name);
      const visible = !isHidden(chart, at);
      const band = one.low && one.high ? bandOf(one, look) : { x: [] };
      if (band.x.length) traces.push(Object.assign(band, { visible }));
      traces.push({
        x: one.x, y: one.y, type: "scatter", name: group, visible, legendrank: at, cliponaxis: false,
        mode: one.faint ? "lines" : "lines+markers", line: { color: look.colour, width: 2, dash: look.dash },
        marker: !look.mark ? {} : {
          size: one.dashed ? 5 : 8, symbol: look.mark[0], color: look.fill, opacity: 1,
          line: { color: look.colour, width: one.dashed ? 1.5 : 0 },
        },
        error_y: one.low && one.high ? barsOf(one, look) : { visible: false },
        hoverlabel: { bgcolor: look.colour },
        customdata: one.x.map((x, at) => {
          const where = isBytes ? formatSize(x) : shown(x);
          const more = one.hover ? escaped(text(one.hover[at])).replaceAll("; ", "<br>") : shown(one.y[at]);
          return `<b>${group}</b>, ${where}<br>${more}`;
        }),
        hovertemplate: "%{customdata}<extra></extra>",
      });
    }
    const log = logged.has(chart.key) ? !chart.y_log : Boolean(chart.y_log);
    const x = isBytes ? Object.assign({ type: "log" }, byteTicks(all)) : {};
    if (isBytes && (chart.marks || []).length) {
      // Otherwise Plotly extends the axis until the names of marks are inside it.
      const [first, last] = extremes(all).map(Math.log10);
      const room = Math.max(0.05, (last - first) * 0.04);
      x.range = [first - room, last + room];
    }
    const values = chart.series.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]);
    const y = log ? Object.assign({ type: "log", minor: { showgrid: false } }, logTicks(values)) : { rangemode: chart.zero_based ? "tozero" : "normal" };
    const shapes = (chart.levels || []).map((level) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: level.value, y1: level.value,
      line: { color: colours.soft, width: 1.5, dash: "dot" },
    }));
    const annotations = (chart.levels || []).map((level) => ({
      xref: "paper", x: 0.005, y: log ? Math.log10(level.value) : level.value, yanchor: "bottom", xanchor: "left",
      text: escaped(level.name), showarrow: false, font: { color: colours.soft, size: 12 },
    }));
    // One below the other, beside the line on the side with more room.
    const [least, most] = extremes(all);
    const middle = isBytes ? Math.sqrt(least * most) : (least + most) / 2;
    for (const [at, mark] of (chart.marks || []).entries()) {
      const isLeft = mark.x < middle;
      shapes.push({
        type: "line", yref: "paper", y0: 0, y1: 1, x0: mark.x, x1: mark.x, layer: "below",
        line: { color: colours.soft, width: 1, dash: "dash" },
      });
      annotations.push({
        x: isBytes ? Math.log10(mark.x) : mark.x, yref: "paper", y: 1, yanchor: "top", yshift: -16 * at,
        xanchor: isLeft ? "left" : "right", xshift: isLeft ? 3 : -3, text: escaped(mark.name), showarrow: false, font: { color: colours.soft, size: 11 }, bgcolor: withAlpha(colours.card, 0.6),
      });
    }
    return {
      traces,
      layout: layout(colours, {
        xaxis: axis(colours, Object.assign({ title: { text: escaped(chart.x_title) } }, x)),
        yaxis: axis(colours, Object.assign({ title: { text: escaped(chart.y_title) } }, y)),
        shapes, annotations, showlegend: chart.series.length > 1,
      }),
    };
  }

  // The fill of a box: nearly transparent for in-place, darker beyond the palette.
  const boxFill = (one, look) => withAlpha(look.colour, one.dashed ? 0.05 : [0.35, 0.8, 0.18][look.turn]);

  function drawnBoxes(chart, colours) {
    const traces = chart.series.map((one, place) => {
      const known = one.boxes.map((box, at) => (box ? at : -1)).filter((at) => at >= 0);
      const look = lookOf(one, colours);
      const part = (number) => known.map((at) => one.boxes[at][number]);
      return {
        type: "box", name: escaped(one.name), x: known.map((at) => escaped(chart.columns[at])),
        lowerfence: part(0), q1: part(1), median: part(2), q3: part(3), upperfence: part(4),
        line: { color: look.colour, width: look.turn ? 2 : 1.25 }, fillcolor: boxFill(one, look),
        whiskerwidth: 0.6, hoverinfo: "y+name", visible: !isHidden(chart, place),
      };
    });
    return {
      traces,
      layout: layout(colours, {
        boxmode: "group", showlegend: chart.series.length > 1,
        xaxis: axis(colours, {
          title: { text: escaped(chart.x_title || "") }, type: "category", categoryorder: "array",
          categoryarray: chart.columns.map(escaped), nticks: 10,
        }),
        yaxis: axis(colours, Object.assign(
          { title: { text: escaped(chart.y_title) }, ticksuffix: " %" },
          chart.limits ? { range: chart.limits.slice() } : {},
        )),
      }),
    };
  }

  function drawnHeat(chart, colours) {
    const values = chart.values;
    const known = values.flat().filter((value) => value !== null);
    let [low, high] = known.length ? extremes(known) : [0, 0];
    const span = chart.least_span || 0;
    let scale;
    if (chart.centred) {
      high = Math.max(Math.abs(low), Math.abs(high), span);
      low = -high;
      scale = [[0, colours.less], [0.5, colours.middle], [1, colours.more]]; // neither is good or bad
    } else {
      if (high - low < span) { const middle = (high + low) / 2; low = middle - span / 2; high = middle + span / 2; }
      scale = chart.higher_is_better === false
        ? [[0, colours.poor], [1, colours.bad]] : [[0, colours.poor], [1, colours.good]];
    }
    const cellText = chart.texts && chart.texts.length ? chart.texts : values.map((row) => row.map(shown));
    const hover = values.map((row, r) => row.map((value, c) => {
      const said = chart.hover ? text(chart.hover[r][c]) : "";
      const what = said || (value === null ? "" : `${shown(value)} ${chart.unit || ""}`);
      return `<b>${escaped(chart.rows[r])}</b>, ${escaped(chart.columns[c])}<br>${escaped(what)}`;
    }));
    const fits = chart.columns.length <= 16 && chart.rows.length <= 32;
    const trace = {
      type: "heatmap", z: values, x: chart.columns.map((_, at) => at), y: chart.rows.map((_, at) => at),
      zmin: low, zmax: high, colorscale: scale, xgap: 2, ygap: 2, customdata: hover,
      hovertemplate: "%{customdata}<extra></extra>", hoverongaps: false,
      colorbar: { thickness: 10, outlinewidth: 0, title: { text: escaped(chart.unit || ""), side: "top" }, tickfont: { color: colours.soft } },
      text: cellText.map((row) => row.map(escaped)), texttemplate: fits ? "%{text}" : "", textfont: { size: 12 },
    };
    const step = Math.max(1, Math.ceil(chart.columns.length / 10));
    const places = chart.columns.map((_, at) => at).filter((at) => at % step === 0);
    // Cells without a value are not drawn: their text is shown as a note.
    const annotations = [];
    if (fits) {
      values.forEach((row, r) => row.forEach((value, c) => {
        if (value === null && cellText[r][c]) {
          annotations.push({ x: c, y: r, text: escaped(cellText[r][c]), showarrow: false, font: { color: colours.soft, size: 12 } });
        }
      }));
    }
    return {
      traces: [trace],
      layout: layout(colours, {
        showlegend: false, annotations,
        xaxis: axis(colours, {
          title: { text: escaped(chart.column_title || "") }, tickvals: places,
          ticktext: places.map((at) => escaped(chart.columns[at])), showgrid: false, zeroline: false,
        }),
        yaxis: axis(colours, {
          autorange: "reversed", tickvals: chart.rows.map((_, at) => at), ticktext: chart.rows.map(escaped),
          showgrid: false, zeroline: false,
        }),
      }),
    };
  }

  const DRAWN = { lines: drawnLines, boxes: drawnBoxes, heat: drawnHeat };

  const heightOf = (chart) => (chart.kind === "heat" ? Math.min(60, Math.max(16, 6 + 1.7 * chart.rows.length)) : 24);

  // ---- legends: outside the plot, so that many curves do not make the plot smaller
  const isHidden = (chart, at) => Boolean(hidden.has(chart.key) && hidden.get(chart.key).has(at));

  function inSvg(parent, name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  }

  function swatch(chart, one, colours) {
    const look = lookOf(one, colours);
    const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [key, value] of [["viewBox", "0 0 28 12"], ["width", 28], ["height", 12], ["aria-hidden", "true"]]) {
      made.setAttribute(key, value);
    }
    if (chart.kind === "boxes") {
      const fill = boxFill(one, look);
      inSvg(made, "rect", { x: 6, y: 1, width: 16, height: 10, fill, stroke: look.colour, "stroke-width": 1.5 });
      return made;
    }
    const dash = look.dash === "solid" ? "none" : look.dash;
    inSvg(made, "line", { x1: 0, y1: 6, x2: 28, y2: 6, stroke: look.colour, "stroke-width": 2, "stroke-dasharray": dash });
    if (look.mark) {
      inSvg(made, "path", { d: look.mark[1], fill: look.fill, stroke: look.colour, "stroke-width": one.dashed ? 1.5 : 0 });
    }
    return made;
  }

  // A click hides or shows a curve, a double click shows only that curve or all of them.
  function hide(figure, chart, at, alone) {
    const away = new Set(hidden.get(chart.key));
    if (alone) {
      const others = chart.series.map((_, other) => other).filter((other) => other !== at);
      const already = others.every((other) => away.has(other));
      away.clear();
      if (!already) for (const other of others) away.add(other);
    } else if (!away.delete(at)) away.add(at);
    hidden.set(chart.key, away);
    return draw(figure);
  }

  function fillLegend(figure, chart, colours) {
    if (chart.kind === "heat" || chart.series.length < 2) return;
    let list = figure.querySelector(".legend");
    if (!list) {
      list = document.createElement("ul");
      list.className = "legend";
      chart.series.forEach((one, at) => {
        const entry = button("", (event) => hide(figure, chart, at, event.detail === 2));
        entry.append(document.createElement("span"), one.name);
        const item = document.createElement("li");
        item.append(entry);
        list.append(item);
      });
      figure.querySelector(".plot").before(list);
    }
    list.querySelectorAll("button").forEach((entry, at) => {
      entry.setAttribute("aria-pressed", String(!isHidden(chart, at)));
      entry.firstChild.replaceChildren(swatch(chart, chart.series[at], colours));
    });
  }

  function onPaper(figure, chart, layout) {
    const only = figure.parentNode.children.length === 1;
    const height = chart.kind === "heat" ? Math.min(PAPER.most, 70 + 20 * chart.rows.length) : only ? 340 : PAPER.height;
    Object.assign(layout, { width: only && chart.kind !== "heat" ? PAPER.whole : PAPER.half, height });
    layout.font.size = 11;
    layout.xaxis.tickfont.size = layout.yaxis.tickfont.size = 10;
  }

  function draw(figure) {
    const chart = charts.get(figure.dataset.chart);
    const plot = figure.querySelector(".plot");
    const colours = theme();
    const made = DRAWN[chart.kind](chart, colours);
    plot.style.height = `${heightOf(chart)}rem`;
    fillLegend(figure, chart, colours);
    made.layout.showlegend = false;
    if (root.dataset.paper) onPaper(figure, chart, made.layout);
    const options = { displayModeBar: false, responsive: !root.dataset.paper };
    return Plotly.react(plot, made.traces, made.layout, options).then(() => {
      if (!figure.dataset.drawn) performance.mark("cclmark-drawn");
      figure.dataset.drawn = "yes";
    });
  }

  function button(label, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.addEventListener("click", act);
    return made;
  }

  function cell(row, name, content) {
    const made = document.createElement(name);
    made.textContent = content;
    if (name === "th") made.scope = row.parentNode && row.parentNode.tagName === "THEAD" ? "col" : "row";
    row.append(made);
    return made;
  }

  // The figures of a chart as a table: for users who cannot see it, and for copying.
  function valuesOf(chart) {
    if (chart.kind === "heat") {
      return { head: ["", ...chart.columns], rows: chart.rows.map((name, r) => [name, ...chart.values[r].map((value, c) => {
        const said = chart.texts && chart.texts.length ? chart.texts[r][c] : "";
        return said || shown(value);
      })]) };
    }
    if (chart.kind === "boxes") {
      return { head: ["", ...chart.series.map((one) => one.name)], rows: chart.columns.map((name, at) => [
        name, ...chart.series.map((one) => (one.boxes[at] ? one.boxes[at].map(shown).join(" / ") : "")),
      ]) };
    }
    const places = [...new Set(chart.series.flatMap((one) => one.x))].sort((a, b) => a - b);
    const isBytes = (chart.x_kind || "bytes") === "bytes";
    return { head: [chart.x_title, ...chart.series.map((one) => one.name)], rows: places.map((x) => [
      isBytes ? formatSize(x) : shown(x), ...chart.series.map((one) => shown(one.y[one.x.indexOf(x)])),
    ]) };
  }

  // The height of the legend in a saved picture, in pixels, with about as many names a line as fit.
  function legendHeight(chart) {
    const longest = Math.max(...chart.series.map((one) => one.name.length));
    const inLine = Math.max(1, Math.floor(900 / (60 + 8 * longest)));
    return 26 * Math.ceil(chart.series.length / inLine);
  }

  function addTools(figure) {
    const chart = charts.get(figure.dataset.chart);
    const tools = figure.querySelector(".tools");
    const plot = figure.querySelector(".plot");
    const save = (format) => {
      const colours = theme();
      const made = DRAWN[chart.kind](chart, colours);
      const title = { text: escaped(chart.title), x: 0.02, xanchor: "left", y: 1, yref: "container", pad: { t: 24 }, font: { size: 16 } };
      const legend = made.layout.showlegend ? legendHeight(chart) : 0;
      Object.assign(made.layout, { title, margin: { l: 64, r: 24, t: 60 + legend, b: 56 }, paper_bgcolor: colours.card });
      const size = { width: 1000, height: Math.max(540, 18 * heightOf(chart)) + legend, scale: format === "png" ? 2 : 1 };
      return Plotly.downloadImage({ data: made.traces, layout: made.layout }, { format, filename: chart.key, ...size });
    };
    tools.append(button("PNG", () => save("png")), button("SVG", () => save("svg")));
    for (const [index, format] of ["PNG", "SVG"].entries()) {
      tools.children[index].setAttribute("aria-label", `Save ${chart.title} as ${format}`);
    }
    if (chart.kind === "lines") {
      const log = button("", () => {
        if (!logged.delete(chart.key)) logged.add(chart.key);
        label();
        draw(figure);
      });
      const label = () => {
        const isLog = logged.has(chart.key) ? !chart.y_log : Boolean(chart.y_log);
        log.textContent = isLog ? "Linear axis" : "Logarithmic axis";
      };
      label();
      tools.append(log);
    }
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "Values";
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      const box = document.createElement("div");
      box.className = "scroll";
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `Values of ${chart.title}`);
      const table = document.createElement("table");
      const { head, rows } = valuesOf(chart);
      const headRow = table.createTHead().insertRow();
      for (const name of head) cell(headRow, name === "" ? "td" : "th", name);
      const body = table.createTBody();
      for (const row of rows) {
        const line = body.insertRow();
        row.forEach((content, at) => cell(line, at === 0 ? "th" : "td", content));
      }
      box.append(table);
      details.append(box);
    }, { passive: true });
    tools.append(details);
  }

  // ---- the table of all cases
  const FIRST_ROWS = 100;
  const COLOURED = ["slower", "faster", "inconclusive"]; // verdicts with a colour in page.css
  const LONG = 24; // characters; longer texts of cells may be wrapped on paper
  const table = { sort: -1, down: false, all: false, words: [] };

  // The common first parts of all texts, each with its comma.
  function commonStart(texts) {
    const parts = texts[0].split(/(?<=, )/);
    let start = "";
    for (const part of parts.slice(0, -1)) {
      if (!texts.every((one) => one.startsWith(start + part))) break;
      start += part;
    }
    return start;
  }

  // On paper, columns and beginnings of long texts that are equal in all rows are printed once
  // above the table, to save width.
  function tellAlike(rows) {
    const alike = new Set(), starts = new Map(), said = [];
    if (root.dataset.paper && rows.length > 1) {
      data.titles.forEach((title, at) => {
        const texts = rows.map((row) => row[at]).filter((one) => one !== null && one !== "");
        if (rows.every((row) => row[at] === rows[0][at])) {
          alike.add(at);
          if (texts.length) said.push(`${title} ${texts[0]}`);
        } else if (texts.length > 1 && texts.every((one) => typeof one === "string" && one.length > LONG)) {
          const start = commonStart(texts);
          if (start.length > 2) { starts.set(at, start.length); said.push(`${title} ${start}…`); }
        }
      });
    }
    return { alike, starts, said };
  }

  const wide = () => document.querySelectorAll(".scroll > table, .scroll > pre");

  // Sets the largest font size with which a table or listing fits the width of a sheet. Texts in
  // cells are wrapped if it would become too small; numbers are not.
  function fitOnPaper(one) {
    const largest = one.classList.contains("cases") ? PAPER.largest : PAPER.usual;
    const fit = (size, smallest) => {
      one.style.fontSize = `${size}px`;
      const share = (PAPER.whole + 12) / Math.max(one.offsetWidth, one.scrollWidth);
      const fitting = size * Math.min(1, share * 0.99);
      one.style.fontSize = `${Math.max(smallest, fitting)}px`;
      return fitting >= smallest;
    };
    if (fit(largest, PAPER.smallest)) return;
    one.classList.add("wrapped");
    fit(PAPER.smallest, 1);
  }

  function unfit(one) {
    one.style.fontSize = "";
    one.classList.remove("wrapped");
  }

  function matching() {
    const rows = table.words.length
      ? data.rows.filter((row) => table.words.every((word) => row.some((one) => one !== null && String(one).toLowerCase().includes(word))))
      : data.rows.slice();
    if (table.sort >= 0) {
      const sign = table.down ? -1 : 1;
      const key = (row) => row[table.sort];
      rows.sort((a, b) => {
        const one = key(a), other = key(b);
        if (one === null || other === null) return (one === null) - (other === null);
        if (typeof one === "number" && typeof other === "number") return sign * (one - other);
        return sign * String(one).localeCompare(String(other));
      });
    }
    return rows;
  }

  // The rows of each kind of work, each of which has its own table on paper: a table with the columns
  // of all kinds is mostly empty, and too wide for a sheet.
  function partsOf(rows) {
    if (!root.dataset.paper || !data.parts) return [rows];
    const kinds = new Map(data.rows.map((row, at) => [row, data.parts[at]]));
    const parts = new Map();
    for (const row of rows) {
      const kind = kinds.get(row);
      if (!parts.has(kind)) parts.set(kind, []);
      parts.get(kind).push(row);
    }
    return parts.size ? [...parts.values()] : [rows];
  }

  // Adds an empty copy of the table and of the line above it.
  function addPart() {
    const made = document.createElement("div");
    made.className = "scroll part";
    const line = document.createElement("p");
    line.className = "remark";
    const copy = document.getElementById("cases").cloneNode(true);
    copy.removeAttribute("id");
    made.append(line, copy);
    const last = [...document.querySelectorAll("#table > .scroll")].pop();
    last.after(made);
    return [copy, line];
  }

  function fillTable() {
    const rows = matching();
    const some = table.all ? rows : rows.slice(0, FIRST_ROWS);
    document.querySelectorAll(".part").forEach((part) => part.remove());
    partsOf(some).forEach((part, number) => {
      const [cases, line] = number ? addPart() : [document.getElementById("cases"), document.getElementById("alike")];
      fillRows(cases, line, part);
    });
    document.getElementById("count").textContent =
      rows.length === data.rows.length ? `${rows.length} rows` : `${rows.length} of ${data.rows.length} rows`;
    const more = document.getElementById("more");
    more.hidden = some.length === rows.length;
    more.textContent = `Show all ${rows.length}`;
  }

  function fillRows(cases, line, rows) {
    const body = document.createElement("tbody");
    const { alike, starts, said } = tellAlike(rows);
    line.hidden = !said.length;
    line.textContent = `The same in all rows: ${said.join("; ")}.`;
    for (const row of rows) {
      const added = body.insertRow();
      const verdict = row[data.columns.indexOf("verdict")];
      if (COLOURED.includes(verdict)) added.className = verdict;
      row.forEach((content, at) => {
        if (alike.has(at)) return;
        const made = added.insertCell();
        if (content !== null && content.length - (starts.get(at) || 0) > LONG) made.className = "long";
        if (typeof content === "number") made.className = "number";
        made.textContent = content === null ? "" : starts.has(at) ? content.slice(starts.get(at)) : content;
      });
    }
    cases.querySelector("tbody").replaceWith(body);
    cases.querySelectorAll("thead th").forEach((head, at) => {
      head.hidden = alike.has(at);
      head.setAttribute("aria-sort", at !== table.sort ? "none" : table.down ? "descending" : "ascending");
    });
  }

  function csv() {
    // Cells that a spreadsheet would read as a formula are quoted.
    const quoted = (value) => {
      if (value === null) return "";
      if (typeof value === "number") return String(value);
      const safe = /^\s*[=+\-@]/.test(value) ? `'${value}` : value;
      return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const lines = [data.columns, ...matching()].map((row) => row.map(quoted).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = data.fileName;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function setUpTable() {
    const head = document.querySelector("#cases thead");
    if (!head) return;
    const row = head.insertRow();
    data.titles.forEach((title, at) => {
      const made = document.createElement("th");
      made.scope = "col";
      made.title = data.helps[at];
      made.append(button(title, () => {
        // The best values first, then the worst ones.
        table.down = table.sort === at ? !table.down : data.higherIsBetter[at];
        table.sort = at;
        fillTable();
      }));
      row.append(made);
    });
    document.getElementById("filter").addEventListener("input", (event) => {
      table.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      table.all = false;
      fillTable();
    });
    document.getElementById("more").addEventListener("click", () => { table.all = true; fillTable(); });
    document.getElementById("csv").addEventListener("click", csv);
    fillTable();
  }

  // ---- theme
  const stored = () => { try { return localStorage.getItem("cclmark-theme"); } catch { return null; } };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const figures = [...document.querySelectorAll("figure[data-chart]")];

  function applyTheme(name) {
    root.dataset.theme = name;
    const toggle = document.getElementById("theme");
    toggle.hidden = false;
    toggle.textContent = name === "dark" ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to ${toggle.textContent.toLowerCase()} colours`);
    for (const figure of figures) if (figure.dataset.drawn) draw(figure);
  }

  // Plotly is large: it is run after the page has been shown. Its hash is in the page's policy.
  function runPlotly() {
    const source = document.getElementById("plotly");
    if (!source || window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = source.textContent;
    document.head.append(script);
    source.remove();
  }

  applyTheme(stored() || (dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    const name = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("cclmark-theme", name); } catch { /* not available to a page from a file */ }
    applyTheme(name);
  });
  dark.addEventListener("change", () => { if (!stored()) applyTheme(dark.matches ? "dark" : "light"); });

  // Charts are drawn one after another when they come near the window: a page of hundreds opens as
  // fast as one of two, and stays responsive.
  const waiting = [];
  function drawOrTell(figure) {
    const told = (error) => {
      const plot = figure.querySelector(".plot");
      plot.textContent = `This chart cannot be drawn (${error.message}): its values are below.`;
    };
    let drawn;
    try { drawn = draw(figure); } catch (error) { drawn = Promise.reject(error); }
    return drawn.catch(told);
  }
  function drawNext() {
    drawOrTell(waiting[0]).finally(() => {
      waiting.shift();
      if (waiting.length) setTimeout(drawNext);
    });
  }
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watch.unobserve(entry.target);
      waiting.push(entry.target);
      if (waiting.length === 1) drawNext();
    }
  }, { rootMargin: "400px" });

  // For paper, all charts are drawn in light colours and at a sheet's width; all rows are shown.
  let before = null;
  addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, all: table.all };
    root.dataset.theme = "light";
    root.dataset.paper = "yes";
    table.all = true;
    if (document.querySelector("#cases")) fillTable();
    wide().forEach(fitOnPaper);
    runPlotly();
    for (const figure of figures) draw(figure);
  });
  addEventListener("afterprint", () => {
    if (!before) return;
    delete root.dataset.paper;
    table.all = before.all;
    wide().forEach(unfit);
    if (document.querySelector("#cases")) fillTable();
    applyTheme(before.theme);
  });

  setUpTable();
  for (const figure of figures) addTools(figure);
  root.dataset.ready = "yes";
  performance.mark("cclmark-ready");
  // The first visible charts are drawn before the page counts as loaded, so that a screenshot taken
  // then contains them: as many as are quick to draw.
  const EAGER = { charts: 6, points: 3000 };
  const pointsOf = (chart) => (chart.kind === "heat" ? chart.rows.length * chart.columns.length
    : chart.series.reduce((sum, one) => sum + (one.x || one.boxes).length, 0));
  const eager = new Set(figures.filter((figure) => figure.getBoundingClientRect().top < innerHeight
    && pointsOf(charts.get(figure.dataset.chart)) <= EAGER.points).slice(0, EAGER.charts));
  if (eager.size) runPlotly();
  for (const figure of eager) drawOrTell(figure);
  requestAnimationFrame(() => setTimeout(() => {
    runPlotly();
    for (const figure of figures) if (!eager.has(figure)) watch.observe(figure);
  }));
})();
