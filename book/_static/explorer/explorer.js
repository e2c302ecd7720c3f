/* The explorer's page: controls, address, report and charts.
 *
 * All numbers come from report.js. They are computed in a worker made of the functions' own source,
 * because a page opened from a file may not load a worker's script; where there is no worker at
 * all, the same jobs run here, one after the other.
 */
"use strict";

(function reconriskPage() {
  const special = reconriskSpecial();
  const bounds = reconriskBounds(special);
  const accountant = reconriskAccountant(special);
  const report = reconriskReport(special, bounds, accountant);
  const { chart, fromLog10, html, power, show } = reconriskCharts();
  window.reconriskExplorer = { accountant, bounds, report, special, evaluate: report.evaluate };

  const host = document.getElementById("explorer-form");
  if (!host) return;

  // --- the controls ---------------------------------------------------------------------------

  const CONTROLS = [
    ["sigma", "σ", "noise multiplier", "log"],
    ["q", "q", "sampling rate", "log"],
    ["steps", "T", "steps", "log"],
    ["surprise", "κ", "prior success", "prior"],
    ["dimension", "N", "values in a record", "log"],
    ["norm", "‖X‖", "norm of the record", "log"],
    ["range", "R", "data range", "log"],
    ["clip", "C", "clipping norm", "log"],
  ];
  const MORE = [
    ["delta", "δ", "of epsilon", "log"],
    ["fpr", "FPR", "false positive rate", "log"],
    ["mse", "η", "mean squared error", "log"],
    ["psnr", "dB", "PSNR", "line"],
    ["ncc", "r", "correlation (NCC)", "line"],
    ["contrast", "c", "contrast of the record", "line"],
    ["parameters", "p", "released parameters", "log"],
    ["pixels", "ρ", "share of values hit", "line"],
  ];
  const ADDRESS = {
    sigma: "sigma", q: "q", steps: "T", surprise: "k", dimension: "N", norm: "X", range: "R", clip: "C",
    delta: "delta", fpr: "fpr", mse: "mse", psnr: "psnr", ncc: "ncc", contrast: "c", parameters: "p", pixels: "rho",
  };

  const PRESETS = JSON.parse(document.getElementById("explorer-presets").textContent);
  const KINDS = JSON.parse(document.getElementById("explorer-kinds").textContent);
  const POSITIONS = 1000;

  function positionOf(name, scale, value) {
    const { low, high } = report.FIELDS[name];
    const share = scale === "line"
      ? (value - low) / (high - low)
      : Math.log(value / low) / Math.log(high / low);
    return Math.round(POSITIONS * share);
  }

  function valueAt(name, scale, position) {
    const { low, high, whole } = report.FIELDS[name];
    const share = position / POSITIONS;
    if (share >= 1) return high;
    const value = scale === "line" ? low + share * (high - low) : low * (high / low) ** share;
    const rounded = Number(value.toPrecision(3));
    return Math.min(Math.max(whole ? Math.round(rounded) : rounded, low), high);
  }

  /** What is typed, as a number; a prior as minus its decimal logarithm, however small. */
  function parse(scale, text) {
    const plain = text.trim().replace("−", "-").replace(/^1\s*\/\s*(?=\d)/, "1/").replace(/[,\s]/g, "");
    if (scale !== "prior") return plain === "" ? NaN : Number(plain);
    const share = /^1\/(\d+(?:\.\d+)?(?:e\+?\d+)?)$/i.exec(plain);
    if (share) return Math.log10(Number(share[1]));
    const small = /^(\d*\.?\d+)(?:e([+-]?\d+))?$/i.exec(plain);
    if (!small || Number(small[1]) === 0) return NaN;
    return -(Math.log10(Number(small[1])) + Number(small[2] || 0));
  }

  function write(name, value) {
    if (name !== "surprise") return value >= 1e6 || (Math.abs(value) < 1e-3 && value !== 0) ? value.toExponential().replace("e+", "e") : String(value);
    const prior = report.priorOf({ ...setting, surprise: value });
    if (prior.n !== null && prior.n < 1e6) return `1/${prior.n}`;
    const exponent = Math.floor(-value);
    const mantissa = Number((10 ** (-value - exponent)).toPrecision(4));
    return `${mantissa}e${exponent}`;
  }

  let setting = report.complete({});
  let mended = [];
  const inputs = {};

  function control([name, symbol, label, scale]) {
    const id = `explorer-${name}`;
    const slider = html("input", { type: "range", id, min: 0, max: POSITIONS, step: 1 });
    const typed = html("input", {
      type: "text", inputmode: "text", id: `${id}-number`, autocomplete: "off", spellcheck: "false", "aria-label": `${label}, exact`,
    });
    const caption = html("label", { for: id }, html("span", { class: "explorer-symbol" }, symbol), ` ${label}`);
    const problem = html("span", { class: "explorer-problem", id: `${id}-problem`, role: "alert" });
    typed.setAttribute("aria-describedby", problem.id);
    slider.addEventListener("input", () => {
      setting[name] = valueAt(name, scale, Number(slider.value));
      settle();
    });
    typed.addEventListener("change", () => {
      const value = parse(scale, typed.value);
      const { low, high, whole } = report.FIELDS[name];
      const inside = value >= low - 1e-9 * Math.abs(low) && value <= high + 1e-9 * Math.abs(high);
      const fits = inside && (!whole || Number.isInteger(value));
      typed.setAttribute("aria-invalid", String(!fits));
      const ends = scale === "prior" ? `${power(-high)} to 1/2` : `${show(low)} to ${show(high)}`;
      problem.textContent = fits ? "" : `${whole ? "A whole number" : "A number"} from ${ends}, please.`;
      if (!fits) return;
      setting = report.complete({ ...setting, [name]: value });
      settle();
    });
    inputs[name] = { slider, typed, scale, problem };
    return html("div", { class: "explorer-control" }, caption, typed, slider, problem);
  }

  function showControls() {
    for (const [name, { slider, typed, scale, problem }] of Object.entries(inputs)) {
      slider.value = String(positionOf(name, scale, setting[name]));
      const text = write(name, setting[name]);
      slider.setAttribute("aria-valuetext", text);
      if (document.activeElement !== typed || typed.getAttribute("aria-invalid") !== "true") {
        typed.value = text;
        typed.setAttribute("aria-invalid", "false");
        problem.textContent = "";
      }
    }
  }

  // --- the address ----------------------------------------------------------------------------

  function address() {
    const parts = Object.entries(ADDRESS).map(([name, short]) => `${short}=${setting[name]}`);
    return `${window.location.href.split(/[?#]/)[0]}#${parts.join("&")}`;
  }

  /** The setting after an address's # (or ?, in links), null if there is none; says what it mends. */
  function fromAddress(fragment) {
    const given = new URLSearchParams(fragment.slice(1));
    const out = {};
    for (const [name, short] of Object.entries(ADDRESS)) {
      if (given.has(short)) out[name] = given.get(short).trim() === "" ? NaN : Number(given.get(short));
    }
    if (!Object.keys(out).length) return null;
    const taken = report.complete(out);
    mended = Object.keys(out)
      .filter((name) => !(Math.abs(out[name] - taken[name]) <= 1e-9 * Math.abs(taken[name])))
      .map((name) => `${ADDRESS[name]} = ${given.get(ADDRESS[name]) || "nothing"}`);
    return taken;
  }

  /** Say which values of the address could not be taken as they are. */
  function admit() {
    if (!mended.length) return;
    said.textContent = `The address has ${mended.join(", ")}, which no run has or this page does not `
      + "compute; the controls show what is computed instead.";
    mended = [];
  }

  const link = document.getElementById("explorer-link");
  const said = document.getElementById("explorer-said");
  document.getElementById("explorer-copy").addEventListener("click", async () => {
    link.value = address();
    link.focus();
    link.select();
    try {
      await navigator.clipboard.writeText(link.value);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "Selected: copy it from here.";
    }
  });
  window.addEventListener("hashchange", () => {
    const found = fromAddress(window.location.hash);
    if (!found) return;
    setting = found;
    settle();
    admit();
  });

  // --- jobs -----------------------------------------------------------------------------------


  function jobs(work, send) {
    let newest = null;
    function next(id, given, stage) {
      const stages = ["closed", "composed", "closedCurves", "composedCurves", "remote"];
      if (id !== newest || stage === stages.length) return;
      const name = stages[stage];
      let value = null;
      try {
        value = work[name](given);
      } catch (error) {
        send({ id, stage: name, failed: String(error) });
        return;
      }
      send({ id, stage: name, value });
      setTimeout(() => next(id, given, stage + 1), 0);
    }
    return ({ id, given }) => {
      newest = id;
      setTimeout(() => next(id, given, 0), 0);
    };
  }

  function makeWorker(receive) {
    const parts = [reconriskSpecial, reconriskBounds, reconriskAccountant, reconriskReport, jobs];
    const source = `"use strict";${parts.map(String).join("\n")}
      const special = reconriskSpecial();
      const work = reconriskReport(special, reconriskBounds(special), reconriskAccountant(special));
      const take = jobs(work, (message) => postMessage(message));
      onmessage = (event) => take(event.data);`;
    try {
      const place = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      const worker = new Worker(place);
      const here = jobs(report, receive);
      let works = true;
      worker.onmessage = (event) => receive(event.data);
      worker.onerror = (event) => {
        event.preventDefault();
        works = false;
        if (last) here(last);
      };
      return (message) => (works ? worker.postMessage(message) : here(message));
    } catch {
      return jobs(report, receive);
    }
  }

  let last = null;
  let results = {};
  const post = makeWorker(receive);
  const area = document.getElementById("explorer-results");

  function receive({ id, stage, value, failed }) {
    if (!last || id !== last.id) return;
    if (failed) {
      said.textContent = `No result, and what is pale is of an earlier setting: ${failed}`;
      area.setAttribute("aria-busy", "false");
      return;
    }
    results[stage] = value;
    if (stage.endsWith("Curves")) draw();
    else fill(value);
    if (stage === "composed") {
      sum();
      if (report.tooWide(value)) {
        said.textContent += " At this setting some ranges are wide: the lattices that a browser has time for are "
          + "too coarse. The library's command, reconrisk risk, narrows them.";
      }
    }
    if (stage === "remote") {
      area.setAttribute("aria-busy", "false");
      window.reconriskExplorer.shown = id;
    }
  }

  let count = 0;
  let pending = 0;

  /** Take over a changed setting: controls at once, numbers as soon as they are there. */
  function settle() {
    showControls();
    choice.value = "";
    window.clearTimeout(pending);
    pending = window.setTimeout(() => {
      link.value = address();
      // of a page opened from a file only what follows the # may change
      window.history.replaceState(null, "", `#${link.value.split("#")[1]}`);
    }, 250);
    count += 1;
    last = { id: count, given: { ...setting } };
    results = {};
    area.setAttribute("aria-busy", "true");
    for (const cell of area.querySelectorAll("[data-value]")) cell.classList.add("explorer-stale");
    said.textContent = "";
    post(last);
  }

  // --- the report -----------------------------------------------------------------------------

  const WORDS = {
    prior_size: (v) => `${Number(v).toLocaleString("en")} candidates`,
    log_prior: (v) => `a prior success of ${fromLog10(v / Math.LN10)}`,
    false_positive_rate: (v) => `a false positive rate of ${show(Number(v))}`,
    mse: (v) => `an MSE of ${show(Number(v))}`,
    psnr: (v) => `a PSNR of ${show(Number(v))} dB`,
    ncc: (v) => `an NCC of ${show(Number(v))}`,
    pixel_share: (v) => `${show(100 * v)}% of the values`,
  };
  const UNITS = { nats: " nats", dB: " dB" };

  /** The ends of an enclosure with the way to round each; an exact value to the nearest. */
  function ends(low, high) {
    const same = low === high || high === null;
    return [[low, same ? Math.round : Math.floor], [high, same ? Math.round : Math.ceil]];
  }

  function text(entry, unit) {
    if (entry.reason) return `– (${entry.reason})`;
    const [low, high] = entry.logLower !== undefined
      ? ends(entry.logLower, entry.logUpper).map(([v, round]) => (v === null ? null : fromLog10(v / Math.LN10, 4, round)))
      : ends(entry.lower, entry.upper).map(([v, round]) => (v === null ? null : show(v, 4, round)));
    const end = UNITS[unit] || "";
    if (high === null) return `≥ ${low}${end}`;
    return low === high ? low + end : `${low} to ${high}${end}`;
  }

  /** Write entries into the tables that the book holds; kinds without one are dimmed. */
  function fill(entries) {
    for (const [key, entry] of Object.entries(entries)) {
      const [, kind, at, value] = /^(\w+)(?:\[(\w+)=(.+)\])?$/.exec(key);
      const cell = document.querySelector(`[data-value="${kind}"]`);
      if (!cell) continue;
      cell.textContent = text(entry, KINDS[kind].unit);
      cell.dataset.key = key;
      cell.classList.remove("explorer-stale");
      cell.classList.toggle("explorer-nothing", Boolean(entry.reason));
      const words = at ? WORDS[at](value) : "";
      const title = KINDS[kind].title.replace("{at}", words);
      document.querySelector(`[data-title="${kind}"]`).textContent = title.charAt(0).toUpperCase() + title.slice(1);
      cell.title = KINDS[kind].question.replace("{at}", words);
    }
    if (report.priorOf(setting).n !== null) return;
    for (const kind of ["rero_advantage", "bayes_success", "mutual_information", "fano", "fano_orthogonal"]) {
      const cell = document.querySelector(`[data-value="${kind}"]`);
      if (!cell) continue;
      cell.textContent = "– (asked for up to 10¹⁵ candidates)";
      cell.classList.remove("explorer-stale");
      cell.classList.add("explorer-nothing");
      document.querySelector(`[data-title="${kind}"]`).textContent = KINDS[kind].title.replace("{at}", "a list");
    }
  }

  const summary = document.getElementById("explorer-summary");
  let speaking = 0;

  /** One sentence on the whole, announced once the controls rest. */
  function sum() {
    window.clearTimeout(speaking);
    speaking = window.setTimeout(() => {
      if (!results.composed || !results.closed) return;
      const all = { ...results.composed, ...results.closed };
      const of = (kind) => {
        const key = Object.keys(all).find((k) => k.replace(/\[.*/, "") === kind);
        return text(all[key], KINDS[kind].unit);
      };
      const rero = Object.entries(all).find(([key]) => key.startsWith("rero["))[1];
      const most = fromLog10(rero.logUpper / Math.LN10, 4, Math.ceil);
      summary.textContent = `With a prior success of ${write("surprise", setting.surprise)}, no attack succeeds more often `
        + `than ${most}. Epsilon is ${of("epsilon")} at delta ${show(setting.delta)}. `
        + `The analytic attack leaves a mean squared error of ${of("mse")}, shrunk ${of("mse_shrunk")}.`;
    }, 350);
  }

  // --- the charts -----------------------------------------------------------------------------

  const deepest = (all) => Math.max(Math.min(...all), -40);
  const success = { label: "probability", log: true, high: 0.08, last: 0, floor: deepest };
  const shallow = { label: "probability", log: true, high: 0.4, last: 0, floor: () => -12 };
  const noise = { name: "σ", label: "noise multiplier σ", log: true };
  const RERO = { band: ["lower", "upper"], label: "any attack (certified)", colour: "blue" };
  const ATTACK = { key: "attack", label: "best attack known", colour: "orange", dash: "7 3" };
  const RENYI = { key: "renyi", label: "Rényi bound, full batch", colour: "grey", dash: "2 3" };

  const CHARTS = [
    {
      name: "prior", title: "Success against the prior",
      what: "How often the right record is named, over how often a blind guess names it. Sub-sampled: two lines enclose the truth.",
      x: { name: "κ", label: "prior success κ", log: true }, y: { ...success, floor: undefined },
      lines: [RERO, ATTACK, RENYI, { key: "fano", label: "Fano, full batch", colour: "purple", dash: "5 2 1 2" },
        { key: "blind", label: "blind guess", colour: "grey" }],
    },
    {
      name: "noise", title: "Success against the noise",
      what: "The same at the prior success chosen, over the noise multiplier.",
      x: noise, y: success, lines: [RERO, ATTACK, RENYI],
    },
    {
      name: "tradeoff", title: "Membership: trade-off",
      what: "True positives over false positives of the best membership test.",
      x: { name: "false positives", label: "false positive rate", low: 0, high: 1 },
      y: { label: "true positive rate", low: 0, high: 1 },
      lines: [{ ...RERO, label: "best test (certified)" }, { key: "blind", label: "blind guess", colour: "grey", dash: "2 3" }],
    },
    {
      name: "profile", title: "Membership: epsilon",
      what: "The smallest epsilon over delta.",
      x: { name: "δ", label: "δ", log: true }, y: { label: "ε (nats)", low: 0 },
      lines: [{ ...RERO, label: "epsilon (certified)" }],
    },
    {
      name: "mse", title: "How often the error is small",
      what: "The probability of a mean squared error of at most η on a record of this norm, from what the analytic attack sees.",
      x: { name: "η", label: "mean squared error η", log: true }, y: shallow,
      lines: [{ key: "analytic", label: "analytic attack", colour: "green" },
        { key: "shrunk", label: "shrunk", colour: "purple", dash: "7 3" },
        { key: "best", label: "every estimator", colour: "blue", dash: "2 2" }],
    },
    {
      name: "psnr", title: "How often the PSNR is high",
      what: "The probability of a peak signal-to-noise ratio of at least so many decibels.",
      x: { name: "PSNR", label: "PSNR (dB)" }, y: shallow,
      lines: [{ key: "analytic", label: "analytic attack", colour: "green" },
        { key: "best", label: "every estimator", colour: "blue", dash: "2 2" }],
    },
    {
      name: "ncc", title: "How often the correlation is high",
      what: "The probability of a correlation of at least r between record and reconstruction.",
      x: { name: "r", label: "correlation r" }, y: shallow,
      lines: [{ key: "own", label: "analytic attack", colour: "green" }],
    },
    {
      name: "error", title: "Expected error against the noise",
      what: "Mean squared error over the noise multiplier, with the bound for unbiased attacks.",
      x: noise, y: { label: "mean squared error", log: true, floor: deepest },
      lines: [{ key: "analytic", label: "analytic attack", colour: "green" },
        { key: "shrunk", label: "shrunk", colour: "purple", dash: "7 3" },
        { key: "row", label: "one row", colour: "orange", dash: "2 2" },
        { key: "unbiased", label: "least, unbiased (Guo)", colour: "grey", dash: "5 2 1 2", loose: true }],
    },
    {
      name: "capacity", title: "Bayes’ capacity against the noise",
      what: "Log capacity of one release about one record’s gradient; divided by ln 10, it counts decimal digits.",
      x: noise, y: { label: "decimal digits", log: true },
      lines: [{ key: "record", label: "one release", colour: "blue" }],
    },
  ];

  const grid = document.getElementById("explorer-charts");
  const drawing = {};
  for (const spec of CHARTS) {
    const box = html("section", { class: "explorer-chart", "aria-labelledby": `explorer-${spec.name}-title` });
    grid.append(box);
    drawing[spec.name] = chart(box, spec);
  }

  function draw() {
    const closed = results.closedCurves || {};
    const composed = results.composedCurves || {};
    const marks = {
      prior: -setting.surprise, noise: Math.log10(setting.sigma), error: Math.log10(setting.sigma),
      capacity: Math.log10(setting.sigma), tradeoff: setting.fpr, profile: Math.log10(setting.delta),
      mse: Math.log10(setting.mse), psnr: setting.psnr, ncc: setting.ncc,
    };
    for (const { name } of CHARTS) {
      if (!closed[name] && !composed[name]) continue;
      // where a chart has both, they share their places
      const data = { ...closed[name], ...composed[name] };
      if (name === "tradeoff") data.blind = data.x;
      drawing[name](data, marks[name]);
    }
  }

  // --- presets --------------------------------------------------------------------------------

  const choice = document.getElementById("explorer-preset");
  for (const [index, preset] of PRESETS.entries()) {
    choice.append(html("option", { value: index }, preset.name));
  }
  choice.addEventListener("change", () => {
    if (choice.value === "") return;
    const chosen = choice.value;
    setting = report.complete(PRESETS[Number(chosen)].setting);
    settle();
    choice.value = chosen;
  });

  host.append(html("fieldset", {}, html("legend", {}, "The run and the record"), ...CONTROLS.map(control)));
  host.append(html("details", {}, html("summary", {}, "Thresholds and more"), ...MORE.map(control)));
  host.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("explorer-app").hidden = false;
  const given = fromAddress(window.location.hash) || fromAddress(window.location.search);
  setting = given || report.complete(PRESETS[0].setting);
  settle();
  admit();
  if (!given) choice.value = "0";
  window.reconriskExplorer.setting = () => ({ ...setting });
})();
