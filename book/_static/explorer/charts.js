/* Line charts as SVG, with a crosshair that pointer and keyboard move, and a table of numbers.
 *
 * Colours are custom properties of explorer.css, so that both themes and print have their own.
 */
"use strict";

function reconriskCharts() {
  const NAMES = "http://www.w3.org/2000/svg";
  const WIDTH = 350;
  const HEIGHT = 240;
  const BOX = { left: 54, right: 12, top: 8, bottom: 40 };

  function element(name, attributes = {}, ...children) {
    const node = document.createElementNS(NAMES, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function html(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

  function power(exponent) {
    return `10${[...String(exponent)].map((c) => SUPERSCRIPT[c]).join("")}`;
  }

  /** A number for people: four digits, powers of ten written as such.
   *
   * `round` is Math.round, or Math.floor or Math.ceil for the ends of an enclosure.
   */
  function show(value, digits = 4, round = Math.round) {
    if (value === 0) return "0";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e6) return (value < 0 ? "−" : "") + fromLog10(Math.log10(size), digits, round);
    const places = Math.max(digits - 1 - Math.floor(Math.log10(size)), 0);
    const scaled = round(Number(`${value}e${places}`));
    return String(Number(`${scaled}e-${places}`)).replace("-", "−");
  }

  /** The number 10^x, however small. */
  function fromLog10(x, digits = 4, round = Math.round) {
    if (x === -Infinity) return "0";
    if (x > -3 && x < 6) return show(10 ** x, digits, round);
    let exponent = Math.floor(x);
    let mantissa = Number(`${round(Number(`${10 ** (x - exponent)}e${digits - 1}`))}e-${digits - 1}`);
    if (mantissa >= 10) {
      mantissa /= 10;
      exponent += 1;
    }
    return mantissa === 1 ? power(exponent) : `${mantissa} × ${power(exponent)}`;
  }

  /** Round values between two ends, at most so many. */
  function ticks(low, high, most, whole) {
    const span = high - low;
    const rough = span / most;
    const ten = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= rough * 0.999);
    if (whole) step = Math.max(Math.round(step), 1);
    const out = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k += 1) {
      out.push(Number((k * step).toPrecision(12)));
    }
    return out;
  }

  /** Ticks of an axis; a logarithmic one of few decades has 1, 2 and 5 times powers of ten. */
  function ticksOf(axis, low, high) {
    if (!axis.log) return ticks(low, high, 6, false);
    let out = ticks(low, high, 6, true);
    if (high - low < 2.5) {
      out = [];
      for (let k = Math.floor(low); k <= high; k += 1) {
        for (const m of [1, 2, 5]) out.push(k + Math.log10(m));
      }
    }
    return out.filter((v) => v >= low - 1e-9 && v <= Math.min(high, axis.last ?? high) + 1e-9);
  }

  /** Make a chart in a figure; returns a function that draws data into it.
   *
   * spec: title, what, x and y as {label, log, low, high}, lines as
   * [{key, label, colour, dash, band: [lowerKey, upperKey]}].
   */
  function chart(host, spec) {
    const id = `explorer-${spec.name}`;
    const title = html("h2", { id: `${id}-title` }, spec.title);
    const svg = element("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      tabindex: "0",
      "aria-labelledby": `${id}-title ${id}-what`,
    });
    const what = html("p", { class: "explorer-what", id: `${id}-what` }, spec.what);
    const legend = html("ul", { class: "explorer-legend" });
    for (const line of spec.lines) {
      const sample = element("svg", { viewBox: "0 0 26 8", class: "explorer-sample", "aria-hidden": "true" });
      sample.append(stroke(line, "M1 4H25"));
      legend.append(html("li", {}, sample, line.label));
    }
    const readout = html("p", { class: "explorer-readout", role: "status" });
    const table = html("table", { class: "explorer-numbers" });
    const box = html("div", { class: "explorer-scroll", tabindex: "0", role: "region", "aria-label": `${spec.title}, numbers` }, table);
    const details = html("details", {}, html("summary", {}, "Numbers"), box);
    host.append(title, what, svg, legend, readout, details);

    let drawn = null;
    let at = null;

    function write(axis, value, round) {
      return axis.log ? fromLog10(value, 4, round) : show(value, 4, round);
    }

    function values(line, index) {
      if (!line.band) {
        const value = drawn.data[line.key] && drawn.data[line.key][index];
        return Number.isFinite(value) ? write(spec.y, value) : null;
      }
      const low = drawn.data[line.band[0]];
      const high = drawn.data[line.band[1]];
      if (!low) return null;
      if (low[index] === high[index]) return write(spec.y, low[index]);
      return `${write(spec.y, low[index], Math.floor)} to ${write(spec.y, high[index], Math.ceil)}`;
    }

    function point(index) {
      if (!drawn) return;
      at = Math.min(Math.max(index, 0), drawn.data.x.length - 1);
      const x = drawn.toX(drawn.data.x[at]);
      drawn.cross.setAttribute("x1", x);
      drawn.cross.setAttribute("x2", x);
      drawn.cross.setAttribute("visibility", "visible");
      const parts = spec.lines.map((line) => [line.label, values(line, at)]).filter((p) => p[1] !== null);
      readout.textContent = `${spec.x.name} = ${write(spec.x, drawn.data.x[at])}: `
        + parts.map(([label, value]) => `${label} ${value}`).join("; ");
    }

    function nearest(event) {
      const rectangle = svg.getBoundingClientRect();
      const x = ((event.clientX - rectangle.left) / rectangle.width) * WIDTH;
      const distances = drawn.data.x.map((v) => Math.abs(drawn.toX(v) - x));
      return distances.indexOf(Math.min(...distances));
    }

    svg.addEventListener("pointermove", (event) => drawn && point(nearest(event)));
    svg.addEventListener("pointerdown", (event) => drawn && point(nearest(event)));
    svg.addEventListener("keydown", (event) => {
      if (!drawn) return;
      const last = drawn.data.x.length - 1;
      const moves = { ArrowRight: 1, ArrowLeft: -1, PageUp: 5, PageDown: -5 };
      if (event.key in moves) point(at === null ? drawn.middle : at + moves[event.key]);
      else if (event.key === "Home") point(0);
      else if (event.key === "End") point(last);
      else return;
      event.preventDefault();
    });

    function draw(data, mark) {
      const x = data.x.filter(Number.isFinite);
      const low = spec.x.low ?? Math.min(...x);
      const high = spec.x.high ?? Math.max(...x);
      const of = (line) => (line.band || [line.key]).flatMap((k) => data[k] || []).filter(Number.isFinite);
      spec.lines.forEach((line, i) => {
        legend.children[i].hidden = of(line).length === 0;
      });
      const all = spec.lines.filter((line) => !line.loose).flatMap(of);
      let bottom = spec.y.low ?? Math.min(...all);
      let top = spec.y.high ?? Math.max(...all);
      if (spec.y.floor !== undefined) bottom = Math.max(Math.min(...all, -1), spec.y.floor(all));
      if (!all.length) [bottom, top] = [spec.y.low ?? 0, spec.y.high ?? 1];
      if (!(top > bottom)) top = bottom + 1;
      if (spec.y.high === undefined) top += 0.05 * (top - bottom);
      const toX = (v) => BOX.left + ((v - low) / (high - low)) * (WIDTH - BOX.left - BOX.right);
      const toY = (v) => HEIGHT - BOX.bottom - ((v - bottom) / (top - bottom)) * (HEIGHT - BOX.top - BOX.bottom);
      const children = [];
      const grid = element("g", { class: "explorer-grid" });
      const words = element("g", { class: "explorer-words" });
      for (const v of ticksOf(spec.x, low, high)) {
        grid.append(element("line", { x1: toX(v), x2: toX(v), y1: BOX.top, y2: HEIGHT - BOX.bottom }));
        words.append(element("text", { x: toX(v), y: HEIGHT - BOX.bottom + 15, "text-anchor": "middle" }, tickText(spec.x, v)));
      }
      for (const v of ticksOf(spec.y, bottom, top)) {
        grid.append(element("line", { x1: BOX.left, x2: WIDTH - BOX.right, y1: toY(v), y2: toY(v) }));
        words.append(element("text", { x: BOX.left - 6, y: toY(v) + 4, "text-anchor": "end" }, tickText(spec.y, v)));
      }
      words.append(element("text", { x: (BOX.left + WIDTH - BOX.right) / 2, y: HEIGHT - 7, "text-anchor": "middle" }, spec.x.label));
      const middle = (BOX.top + HEIGHT - BOX.bottom) / 2;
      words.append(element("text", { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` }, spec.y.label));
      const clipId = `${id}-clip`;
      const clip = element("clipPath", { id: clipId }, element("rect", {
        x: BOX.left, y: BOX.top - 1, width: WIDTH - BOX.left - BOX.right, height: HEIGHT - BOX.top - BOX.bottom + 2,
      }));
      const curves = element("g", { "clip-path": `url(#${clipId})` });
      if (mark !== undefined && Number.isFinite(mark) && mark >= low && mark <= high) {
        curves.append(element("line", { class: "explorer-mark", x1: toX(mark), x2: toX(mark), y1: BOX.top, y2: HEIGHT - BOX.bottom }));
      }
      for (const line of spec.lines) curves.append(...paths(line, data, toX, toY));
      const cross = element("line", { class: "explorer-cross", x1: 0, x2: 0, y1: BOX.top, y2: HEIGHT - BOX.bottom, visibility: "hidden" });
      curves.append(cross);
      const frame = element("path", {
        class: "explorer-frame", d: `M${BOX.left} ${BOX.top}V${HEIGHT - BOX.bottom}H${WIDTH - BOX.right}`,
      });
      children.push(clip, grid, curves, frame, words);
      svg.replaceChildren(...children);
      const places = data.x.map((v) => Math.abs(v - (Number.isFinite(mark) ? mark : (low + high) / 2)));
      drawn = { data, toX, cross, middle: places.indexOf(Math.min(...places)) };
      at = null;
      readout.textContent = "";
      numbers(data);
    }

    function numbers(data) {
      const head = html("tr", {}, html("th", { scope: "col" }, spec.x.name));
      for (const line of spec.lines) head.append(html("th", { scope: "col" }, line.label));
      const rows = [html("thead", {}, head)];
      const body = html("tbody");
      const step = Math.max(Math.round(data.x.length / 12), 1);
      for (let i = 0; i < data.x.length; i += step) {
        const row = html("tr", {}, html("th", { scope: "row" }, write(spec.x, data.x[i])));
        for (const line of spec.lines) row.append(html("td", {}, values(line, i) ?? "–"));
        body.append(row);
      }
      table.replaceChildren(...rows, body);
    }

    return draw;
  }

  function tickText(axis, value) {
    if (!axis.log) return show(value);
    if (Number.isInteger(value)) return value >= -2 && value <= 3 ? show(10 ** value) : power(value);
    return fromLog10(value, 2);
  }

  function stroke(line, d) {
    return element("path", {
      d, class: "explorer-line", style: `stroke: var(--ex-${line.colour})`, "stroke-dasharray": line.dash || "",
    });
  }

  function track(x, y, toX, toY) {
    let d = "";
    let pen = "M";
    for (let i = 0; i < x.length; i += 1) {
      if (!Number.isFinite(y[i])) pen = "M";
      else {
        d += `${pen}${toX(x[i]).toFixed(2)} ${Math.min(Math.max(toY(y[i]), -1e4), 1e4).toFixed(2)}`;
        pen = "L";
      }
    }
    return d;
  }

  function paths(line, data, toX, toY) {
    if (!line.band) {
      return data[line.key] ? [stroke(line, track(data.x, data[line.key], toX, toY))] : [];
    }
    const [low, high] = line.band.map((k) => data[k]);
    if (!low) return [];
    const upper = stroke(line, track(data.x, high, toX, toY));
    const lower = stroke(line, track(data.x, low, toX, toY));
    const there = track(data.x, high, toX, toY);
    const back = track([...data.x].reverse(), [...low].reverse(), toX, toY).replace("M", "L");
    const area = element("path", { d: `${there}${back}Z`, class: "explorer-band", style: `fill: var(--ex-${line.colour})` });
    return [area, lower, upper];
  }

  return { chart, fromLog10, html, power, show };
}
