"use strict";
// Readouts, switches and the table of a page. Charts are in the page as drawings; further views of
// them, their figures and the table are in its compressed data. All text from the data is assigned
// to textContent; drawings and legends are complete, with their texts escaped.
(async () => {
  const root = document.documentElement;

  // ---- theme
  const stored = () => { try { return localStorage.getItem("cclmark-theme"); } catch { return null; } };
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function applyTheme(name) {
    root.dataset.theme = name;
    const toggle = document.getElementById("theme");
    toggle.hidden = false;
    toggle.textContent = name === "dark" ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to ${toggle.textContent.toLowerCase()} colours`);
  }

  applyTheme(stored() || (dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    const name = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("cclmark-theme", name); } catch { /* not available to a page from a file */ }
    applyTheme(name);
  });
  dark.addEventListener("change", () => { if (!stored()) applyTheme(dark.matches ? "dark" : "light"); });

  // ---- folded parts: a link into one opens it
  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const inside = target.querySelector(":scope > details");
    if (inside) inside.open = true;
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", unfold);

  const all = document.getElementById("unfold");
  const sections = [...document.querySelectorAll("main > section > details")];
  all.hidden = !sections.length;
  all.addEventListener("click", () => {
    const opens = all.textContent === "Unfold all";
    for (const one of sections) one.open = opens;
    all.textContent = opens ? "Fold all" : "Unfold all";
  });

  // ---- the data
  const coded = atob(document.getElementById("data").textContent);
  const packed = new Uint8Array(coded.length); // filled in a loop: from() takes several times as long
  for (let at = 0; at < coded.length; at += 1) packed[at] = coded.charCodeAt(at);
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(inflated).json();
  const charts = new Map(data.charts.map((chart) => [chart.key, chart]));
  // Texts are words with figures between them, which compress better by place.
  const used = data.texts.words.map(() => 0);
  data.texts = data.texts.forms.map((form) => {
    const { words, figures } = data.texts, at = used[form]++;
    return words[form].map((part, place) => (place ? figures[form][place - 1][at] : "") + part).join("");
  });
  const content = (cell) => (Array.isArray(cell) ? data.texts[cell[0]] : cell);
  data.rows = (data.cells[0] || []).map((_, at) => data.cells.map((column) => content(column[at])));

  const text = (number) => (number === undefined || number === null ? "" : data.texts[number]);
  // Of texts that follow each other, charts have the first one.
  const textAt = (texts, at) => text(Array.isArray(texts) ? texts[at] : texts + at);
  const shown = (value) =>
    value === null || value === undefined ? "" : Math.abs(value) >= 1000 ? value.toFixed(0)
      : Math.abs(value) >= 1 ? value.toFixed(2) : Number(value.toPrecision(3)).toString();

  function formatSize(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = 0;
    while (bytes >= 1024 && power < 4) { bytes /= 1024; power += 1; }
    return `${Number.isInteger(bytes) ? bytes : bytes.toPrecision(4)} ${units[power]}`;
  }

  const isBytes = (chart) => (chart.x_kind || "bytes") === "bytes";
  const plotsOf = (figure) => [...figure.querySelectorAll(".plot")];
  const chartOf = (plot) => charts.get(plot.dataset.chart);

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

  // ---- drawings and legends that are not in the page
  const drawings = data.drawings || {}, legends = data.legends || {};

  function draw(place) {
    for (const plot of place.querySelectorAll(".plot:empty")) plot.innerHTML = drawings[plot.dataset.chart] || "";
    for (const list of place.querySelectorAll("figure > .legend:empty")) {
      list.innerHTML = legends[list.parentElement.dataset.chart] || "";
    }
  }

  // Figures of folded sections get their buttons when these unfold.
  const ready = new WeakSet();

  function prepare(place) {
    draw(place);
    for (const figure of place.querySelectorAll("figure[data-chart]")) {
      if (!ready.has(figure)) setUp(figure);
      ready.add(figure);
    }
  }

  document.querySelectorAll(".first").forEach(draw);
  for (const one of sections) {
    if (one.open) draw(one);
    one.addEventListener("toggle", () => { if (one.open) prepare(one); });
  }

  // ---- readouts
  const vertices = new WeakMap(); // the places of a curve's points, as [x, y]

  // Each part of a path begins at a place, from which its points are distances: M64 20.5h0l12-.5 12 3h0
  function verticesOf(path) {
    if (!vertices.has(path)) {
      const places = [];
      for (const part of path.getAttribute("d").split("M").slice(1)) {
        const numbers = part.replaceAll("h0", "").match(/-?[\d.]+/g).map(Number);
        let x = 0, y = 0; // in tenths, which add up exactly
        for (let at = 0; at + 1 < numbers.length; at += 2) {
          x += Math.round(numbers[at] * 10);
          y += Math.round(numbers[at + 1] * 10);
          places.push([x / 10, y / 10]);
        }
      }
      vertices.set(path, places);
    }
    return vertices.get(path);
  }

  // The nearest point of a visible curve: its place, name and text.
  function pointAt(plot, chart, x, y) {
    let best = null, least = 30 ** 2;
    for (const path of plot.querySelectorAll(".curve:not([hidden])")) {
      verticesOf(path).forEach(([left, top], at) => {
        const far = (left - x) ** 2 + (top - y) ** 2;
        if (far <= least) { least = far; best = { path, at, left, top }; }
      });
    }
    if (!best) return null;
    const one = chart.series[best.path.dataset.series];
    const drawn = one.x.map((_, at) => at).filter((at) => one.x[at] !== null && one.y[at] !== null);
    const at = drawn[best.at];
    const where = isBytes(chart) ? formatSize(one.x[at]) : shown(one.x[at]);
    return { ...best, name: `${one.name}, ${where}`, said: one.hover === undefined ? shown(one.y[at]) : textAt(one.hover, at) };
  }

  function cellAt(plot, chart, x, y) {
    const grid = plot.querySelector("[data-grid]");
    if (!grid) return null;
    const [left, top, width, height] = grid.dataset.grid.split(" ").map(Number);
    const column = Math.floor((x - left) / width), row = Math.floor((y - top) / height);
    if (!(row >= 0 && column >= 0 && row < chart.rows.length && column < chart.columns.length)) return null;
    const value = chart.values[row][column];
    const said = (chart.hover ? textAt(chart.hover[row], column) : "") || (value === null ? "" : `${shown(value)} ${chart.unit || ""}`);
    return { name: `${chart.rows[row]}, ${chart.columns[column]}`, said };
  }

  function boxAt(plot, chart, x) {
    const grid = plot.querySelector("[data-columns]");
    if (!grid) return null;
    const [left, width, margin, each] = grid.dataset.columns.split(" ").map(Number);
    const column = Math.floor((x - left) / width);
    const number = Math.floor((x - left - column * width - margin) / each);
    const one = chart.series[Math.min(Math.max(number, 0), chart.series.length - 1)];
    const box = one.boxes[column];
    if (!box) return null;
    const [low, first, middle, third, high] = box.map(shown);
    return { name: `${one.name}, ${chart.columns[column]}`, said: `median ${middle} %; quartiles ${first} to ${third} %; whiskers ${low} to ${high} %` };
  }

  const READ = { lines: pointAt, heat: cellAt, boxes: boxAt };
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  function point(event) {
    const plot = event.currentTarget, svg = plot.querySelector("svg");
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const chart = chartOf(plot);
    const found = READ[chart.kind](plot, chart, x, y);
    leave(event);
    if (!found) return;
    if (found.path) {
      const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [key, value] of [["class", "ring"], ["cx", found.left], ["cy", found.top], ["r", 7]]) ring.setAttribute(key, value);
      svg.append(ring);
    }
    const name = document.createElement("b");
    name.textContent = found.name;
    tip.replaceChildren(name);
    for (const part of found.said.split("; ")) {
      const line = document.createElement("div");
      line.textContent = part;
      tip.append(line);
    }
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, room)) + scrollX}px`;
    const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
    tip.style.top = `${(below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 12) + scrollY}px`;
  }

  function leave(event) {
    tip.hidden = true;
    event.currentTarget.querySelectorAll(".ring").forEach((ring) => ring.remove());
  }

  // ---- curves that are hidden by their names: a double click leaves only one of them
  const hidden = new Map();

  function hide(figure, at, alone) {
    const names = [...figure.querySelectorAll(".legend button")];
    const away = hidden.get(figure) || new Set();
    if (alone) {
      const others = names.map((_, other) => other).filter((other) => other !== at);
      const already = others.every((other) => away.has(other));
      away.clear();
      if (!already) for (const other of others) away.add(other);
    } else if (!away.delete(at)) away.add(at);
    hidden.set(figure, away);
    showCurves(figure);
  }

  function showCurves(figure) {
    const away = hidden.get(figure) || new Set();
    figure.querySelectorAll(".legend button").forEach((entry, at) => entry.setAttribute("aria-pressed", String(!away.has(at))));
    for (const path of figure.querySelectorAll("[data-series]")) path.toggleAttribute("hidden", away.has(Number(path.dataset.series)));
  }

  // ---- other views of a chart
  function addViews(figure, tools) {
    for (const plot of plotsOf(figure)) {
      const views = data.views[plot.dataset.chart] || [];
      if (views.length < 2) continue;
      const drawn = [drawings[views[0][2]] || plot.innerHTML, ...views.slice(1).map(([, svg]) => svg)]; // views: name, drawing, key
      let now = 0;
      const which = plotsOf(figure).length > 1 ? `${chartOf(plot).y_title.split(" [")[0]}: ` : "";
      const change = button(which + views[1][0], () => {
        now = (now + 1) % views.length;
        plot.innerHTML = drawn[now];
        plot.dataset.chart = views[now][2];
        change.textContent = which + views[(now + 1) % views.length][0];
        showCurves(figure);
      });
      tools.append(change);
    }
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
    return { head: [chart.x_title, ...chart.series.map((one) => one.name)], rows: places.map((x) => [
      isBytes(chart) ? formatSize(x) : shown(x), ...chart.series.map((one) => shown(one.y[one.x.indexOf(x)])),
    ]) };
  }

  function addValues(figure, tools) {
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "Values";
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      for (const chart of plotsOf(figure).map(chartOf)) {
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
      }
    });
    tools.append(details);
  }

  // ---- pictures of a chart, complete without the page
  const STYLE = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin",
    "font-family", "font-size", "font-weight", "text-anchor", "paint-order", "display"];

  function styled(original) {
    const copy = original.cloneNode(true);
    const parts = [original, ...original.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((one, at) => {
      const style = getComputedStyle(parts[at]);
      for (const name of STYLE) one.setAttribute(name, style.getPropertyValue(name));
    });
    return copy;
  }

  function inSvg(parent, name, attributes, content = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = content;
    parent.append(made);
    return made;
  }

  function pictureOf(figure) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const font = { "font-family": "system-ui, sans-serif", fill: getComputedStyle(root).color };
    const back = inSvg(made, "rect", { width: 1000, height: 0, fill: getComputedStyle(figure).backgroundColor });
    inSvg(made, "text", { x: 16, y: 30, ...font, "font-size": 16, "font-weight": 600 }, figure.querySelector("figcaption").textContent);
    let left = 16, top = 44;
    for (const entry of figure.querySelectorAll(".legend button[aria-pressed=true]")) {
      const width = 44 + 7.2 * entry.textContent.length;
      if (left + width > 984) { left = 16; top += 20; }
      const swatch = styled(entry.querySelector("svg"));
      for (const [key, value] of [["x", left], ["y", top], ["width", 28], ["height", 12]]) swatch.setAttribute(key, value);
      made.append(swatch);
      inSvg(made, "text", { x: left + 34, y: top + 11, ...font, "font-size": 13 }, entry.textContent.trim());
      left += width;
    }
    top += 24;
    for (const svg of figure.querySelectorAll(".plot > svg")) {
      const { width, height } = svg.viewBox.baseVal;
      const copy = styled(svg);
      for (const [key, value] of [["x", 10], ["y", top], ["width", 980], ["height", (980 / width) * height]]) copy.setAttribute(key, value);
      made.append(copy);
      top += (980 / width) * height + 12;
    }
    const markers = document.getElementById("markers");
    if (markers) made.append(styled(markers));
    back.setAttribute("height", top);
    for (const [key, value] of [["width", 1000], ["height", top], ["viewBox", `0 0 1000 ${top}`]]) made.setAttribute(key, value);
    return new XMLSerializer().serializeToString(made);
  }

  function download(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  async function save(figure, format) {
    const svg = new Blob([pictureOf(figure)], { type: "image/svg+xml" });
    const name = `${figure.dataset.chart}.${format}`;
    if (format === "svg") return download(name, svg);
    const image = new Image();
    image.src = URL.createObjectURL(svg);
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width;
    canvas.height = 2 * image.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    return canvas.toBlob((blob) => download(name, blob));
  }

  function setUp(figure) {
    const tools = figure.querySelector(".tools");
    addViews(figure, tools);
    const wide = button("Enlarge", () => {
      wide.textContent = figure.classList.toggle("enlarged") ? "Reduce" : "Enlarge";
    });
    tools.append(wide);
    for (const format of ["png", "svg"]) {
      const made = button(format.toUpperCase(), () => save(figure, format));
      made.setAttribute("aria-label", `Save ${figure.querySelector("figcaption").textContent} as ${made.textContent}`);
      tools.append(made);
    }
    addValues(figure, tools);
    figure.querySelectorAll(".legend button").forEach((entry, at) => {
      entry.setAttribute("aria-pressed", "true");
      entry.addEventListener("click", (event) => hide(figure, at, event.detail === 2));
    });
    for (const plot of plotsOf(figure)) {
      plot.addEventListener("pointermove", point);
      plot.addEventListener("pointerdown", point);
      plot.addEventListener("pointerleave", leave);
    }
  }

  // ---- the table of all cases
  const FIRST_ROWS = 100;
  const COLOURED = ["slower", "faster", "inconclusive"]; // verdicts with a colour in page.css
  const LONG = 24; // characters; longer texts of cells may be wrapped on paper
  // Sizes on paper, in CSS pixels.
  const PAPER = { whole: 996, usual: 13, largest: 10, smallest: 5.5 };
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
    const last = [...document.querySelectorAll("#table .scroll")].pop();
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
    download(data.fileName, new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
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

  // ---- paper: everything is unfolded, in light colours; all rows are shown
  let before = null;
  addEventListener("beforeprint", () => {
    const folded = [...document.querySelectorAll("main details:not([open])")].filter((one) => !one.closest(".tools"));
    before = { theme: root.dataset.theme, all: table.all, folded };
    for (const one of folded) one.open = true;
    prepare(document);
    root.dataset.theme = "light";
    root.dataset.paper = "yes";
    table.all = true;
    if (document.querySelector("#cases")) fillTable();
    wide().forEach(fitOnPaper);
  });
  addEventListener("afterprint", () => {
    if (!before) return;
    delete root.dataset.paper;
    table.all = before.all;
    wide().forEach(unfit);
    for (const one of before.folded) one.open = false;
    if (document.querySelector("#cases")) fillTable();
    applyTheme(before.theme);
  });

  setUpTable();
  for (const one of document.querySelectorAll("main > :not(section), main > section")) {
    const folded = one.querySelector(":scope > details:not([open])");
    if (!folded) prepare(one);
  }
  // A page in a file contains the journal that its commands need.
  const file = location.protocol === "file:" ? decodeURIComponent(location.pathname.split("/").pop()) : "";
  for (const one of document.querySelectorAll(".copy")) {
    const code = one.previousElementSibling;
    if (/^[\w.-]+$/.test(file)) code.textContent = code.textContent.replace(/\bJOURNAL\b/, file);
    one.hidden = false;
    one.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(code.textContent); } catch { return; }
      one.textContent = "Copied";
      setTimeout(() => { one.textContent = "Copy"; }, 1500);
    });
  }
  document.querySelectorAll(".without").forEach((one) => one.remove());
  unfold();
  root.dataset.ready = "yes";
  performance.mark("cclmark-ready");
})();
