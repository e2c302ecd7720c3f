/* Certified success and epsilon of many sub-sampled steps: reconrisk.privacy in the browser.
 *
 * A port of the modules _step, _compose, _tails, _saddle, _tradeoff and _profile, whose docstrings
 * explain and prove what is done here, bounds on rounding included. It differs in what it spends:
 * shorter lattices, wider tolerances, no closed forms (bounds.js has those), sampling rates below
 * one only. Where enclosures come out too wide to be of use, report.js says so. They are enclosures
 * all the same.
 */
"use strict";

function reconriskAccountant(special) {
  const S = special;
  const UNIT = 2 ** -53;
  const LARGEST_OUTPUT = 34;
  const MOST_CELLS = 1 << 18;
  const LONGEST = 1 << 18;
  const LARGEST = 2 ** 30;
  const MOST_FREQUENCIES = 1 << 9;
  const ROUNDS = 5;
  const FLOOR = 1e-250;
  const NEGLIGIBLE = -80;
  // probability of two steps with large losses, and by how much these must raise epsilon
  const REST = 2e-5;
  const RARE = 0.95;
  // how far, in deviations of the small losses' sum, large ones must raise a success's level
  const APART = 0.25;
  // smallest kappa for which they are treated apart: below, rounding errors swamp the sum beside one
  const LEAST_APART = 1e-18;
  // beyond the cut, cells are at least this part of their distance from the smallest loss wide
  const STRETCH = 1 / 1024;
  const BLOCK = 64;
  const TOO_LONG = { tooLong: true };

  const clip = (x, low, high) => Math.min(Math.max(x, low), high);

  // --- one step -------------------------------------------------------------------------------

  /** Gauss and Legendre's nodes and weights, by Newton's method. */
  function legendre(n) {
    const nodes = [];
    const weights = [];
    for (let i = 0; i < n; i += 1) {
      let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5));
      let slope = 1;
      for (let round = 0; round < 50; round += 1) {
        let p = 1;
        let before = 0;
        for (let k = 1; k <= n; k += 1) [p, before] = [((2 * k - 1) * x * p - (k - 1) * before) / k, p];
        slope = (n * (before - x * p)) / ((1 - x) * (1 + x));
        const move = p / slope;
        x -= move;
        if (Math.abs(move) < 1e-16) break;
      }
      nodes.push(x);
      weights.push(2 / ((1 - x) * (1 + x) * slope * slope));
    }
    return [nodes, weights];
  }

  const FEW = legendre(4);
  const MANY = legendre(8);

  /** Where the cells are: cell j begins bounds[j] width above `base`, and has two halves. */
  function geometry(a, q, width, low, high, cut) {
    const g = { a, q, width, low, high };
    g.base = Math.log1p(-q);
    g.logOdds = Math.log(q) - Math.log1p(-q);
    g.excess = (x) => Math.exp(a * (x - 0.5 * a) + g.logOdds);
    g.output = (y) => {
      if (y <= 0) return low;
      return clip((y + Math.log(-Math.expm1(-y)) - g.logOdds) / a + 0.5 * a, low, high);
    };
    const bottom = Math.log1p(g.excess(low));
    const top = Math.log1p(g.excess(high));
    g.first = Math.floor(bottom / width);
    if (g.first > 0 && g.first * width > bottom) g.first -= 1;
    const last = Math.max(Math.ceil(top / width), g.first + 1);
    const large = Math.floor((cut - g.base) / width) + 1;
    const fine = cut === Infinity ? last : Math.min(Math.max(large, g.first + 2), last);
    g.bounds = [];
    for (let k = g.first; k < fine; k += 1) g.bounds.push(k);
    g.bounds.push(fine);
    while (g.bounds[g.bounds.length - 1] < last) {
      const end = g.bounds[g.bounds.length - 1];
      g.bounds.push(Math.min(Math.ceil(end * (1 + STRETCH)), last));
    }
    g.cells = g.bounds.length - 1;
    return g;
  }

  /** Laws on the lattice base + k width: dominating from above, rounded from below. */
  function oneStep(a, q, width, low, high, cut = Infinity) {
    const g = geometry(a, q, width, low, high, cut);
    const halves = 2 * g.cells;
    const above = new Float64Array(g.cells + 1);
    const nu = new Float64Array(g.cells + 2);
    const mu = new Float64Array(g.cells + 2);
    const lift = Math.exp(g.base);
    let left = low;
    for (let j = 0; j < halves; j += 1) {
      const cell = j >> 1;
      const [start, end] = [g.bounds[cell], g.bounds[cell + 1]];
      const right = j === halves - 1 ? high : g.output((j & 1 ? 2 * end : start + end) * (0.5 * width));
      const bottom = Math.expm1(start * width);
      const toShare = 1 / ((1 + bottom) * Math.expm1((end - start) * width));
      const scale = (right - left) * (Math.max(Math.abs(left), Math.abs(right)) + a + 4);
      const [nodes, weights] = scale <= 0.1 ? FEW : MANY;
      const pieces = scale <= 0.1 ? 1 : Math.ceil(scale / 2);
      const size = (right - left) / pieces;
      let m = 0;
      let n = 0;
      let up = 0;
      let down = 0;
      for (let piece = 0; piece < pieces; piece += 1) {
        const from = left + piece * size;
        for (let i = 0; i < nodes.length; i += 1) {
          const x = from + (0.5 + 0.5 * nodes[i]) * size;
          const density = Math.exp(-0.5 * x * x) * (0.5 * weights[i] * 0.3989422804014327 * size);
          const excess = g.excess(x);
          const share = clip((excess - bottom) * toShare, 0, 1);
          n += density;
          m += density * (lift * (1 + excess));
          down += density * (1 - share);
          up += density * share;
        }
      }
      above[cell] += down;
      above[cell + 1] += up;
      nu[(j + 1) >> 1] += n;
      mu[(j + 1) >> 1] += m;
      left = right;
    }
    return assemble(g, above, nu, mu);
  }

  function assemble(g, above, nu, mu) {
    const { a, q, width, cells } = g;
    const nuLow = S.normalCdf(g.low);
    const nuHigh = S.normalCdf(-g.high);
    const muLow = (1 - q) * nuLow + q * S.normalCdf(g.low - a);
    const muHigh = (1 - q) * nuHigh + q * S.normalCdf(a - g.high);
    let atMinusInfinity = 0;
    if (g.first === 0) {
      const share = (Math.exp(g.logOdds) * S.normalCdf(g.low - a)) / Math.expm1(width);
      above[0] += Math.max(nuLow - share, 0);
      above[1] += share;
    } else {
      above[1] += muLow * Math.exp(-(g.base + (g.first + 1) * width));
      atMinusInfinity = nuLow;
    }
    above[cells] += nuHigh;
    nu[0] += nuLow;
    mu[0] += muLow;
    nu[cells + 1] = nuHigh;
    mu[cells + 1] = muHigh;
    const rounding = roundings(g);
    const largest = Math.min(Math.expm1(Math.min(g.bounds[cells] * width, 1)), 1);
    const exponents = a * Math.max(-g.low, g.high) + a * a + Math.abs(g.logOdds);
    const longer = new Float64Array(cells + 2);
    longer.set(rounding);
    longer[cells + 1] = rounding[cells];
    const further = [...g.bounds, g.bounds[cells] + 1];
    return {
      base: g.base,
      width,
      above: { first: g.first, mass: above, relative: rounding, points: g.bounds },
      nu: { first: g.first, mass: nu, relative: longer, points: further },
      mu: { first: g.first, mass: mu, relative: longer, points: further },
      ratioError: largest * UNIT * (32 + 4 * exponents),
      atInfinity: muHigh * (1 + 1e-9),
      atMinusInfinity: atMinusInfinity * (1 + 1e-9),
    };
  }

  /** Bound on the relative error of the mass at each lattice point. */
  function roundings(g) {
    const x = new Float64Array(g.cells + 1);
    for (let k = 0; k <= g.cells; k += 1) x[k] = Math.abs(g.output(g.bounds[k] * g.width));
    x[0] = Math.abs(g.low);
    x[g.cells] = Math.max(x[g.cells], Math.abs(g.high));
    const out = new Float64Array(g.cells + 1);
    for (let k = 0; k <= g.cells; k += 1) {
      const near = Math.max(x[k], k > 0 ? x[k - 1] : 0, k < g.cells ? x[k + 1] : 0);
      out[k] = UNIT * (64 + 2 * near * near + 4 * (g.a * near + g.a ** 2 + Math.abs(g.logOdds)));
    }
    return out;
  }

  // --- where to look: nothing certified depends on this ---------------------------------------

  function interpolate(x, xs, ys) {
    const n = xs.length;
    if (x <= xs[0]) return ys[0];
    if (x >= xs[n - 1]) return ys[n - 1];
    let low = 0;
    let high = n - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle;
      else high = middle;
    }
    const gap = xs[high] - xs[low];
    return gap > 0 ? ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / gap : ys[low];
  }

  function reach(mechanism, spill) {
    const z = -S.logNormalQuantile(Math.log(spill) - Math.log(mechanism.steps));
    return [-Math.min(z, LARGEST_OUTPUT), Math.min(mechanism.a + z, LARGEST_OUTPUT)];
  }

  function loss(mechanism, x) {
    const { a, q } = mechanism;
    const odds = Math.log(q) - Math.log1p(-q);
    return Math.log1p(-q) + S.logAddExp(0, a * (x - 0.5 * a) + odds);
  }

  /** The smallest width of cells, of those up to the loss `cut` if the others grow. */
  function narrowest(mechanism, low, high, cut = Infinity) {
    if (cut < Infinity) return (cut - loss(mechanism, low)) / (MOST_CELLS >> 2);
    return (loss(mechanism, high) - loss(mechanism, low)) / MOST_CELLS;
  }

  /** The tilted sums of losses, tabulated over tilts. */
  function saddle(mechanism, low, high) {
    const count = 400;
    const losses = new Float64Array(count);
    const density = new Float64Array(count);
    const cell = (high - low) / count;
    for (let i = 0; i < count; i += 1) {
      const x = low + (i + 0.5) * cell;
      losses[i] = loss(mechanism, x);
      density[i] = -0.5 * x * x - 0.5 * Math.log(2 * Math.PI) + Math.log(cell);
    }
    const { steps } = mechanism;
    const moments = (theta) => {
      let top = -Infinity;
      for (let i = 0; i < count; i += 1) top = Math.max(top, theta * losses[i] + density[i]);
      let total = 0;
      let mean = 0;
      let square = 0;
      for (let i = 0; i < count; i += 1) {
        const w = Math.exp(theta * losses[i] + density[i] - top);
        total += w;
        mean += w * losses[i];
        square += w * losses[i] * losses[i];
      }
      mean /= total;
      let variance = square / total - mean * mean;
      if (variance < 1e-6 * mean * mean) {
        variance = 0;
        for (let i = 0; i < count; i += 1) {
          variance += Math.exp(theta * losses[i] + density[i] - top) * (losses[i] - mean) ** 2;
        }
        variance /= total;
      }
      return [top + Math.log(total), mean, Math.sqrt(variance)];
    };
    const ends = [0, 1].map((theta) => Math.sqrt(steps) * moments(theta)[2]);
    const wide = Math.max(Math.min(...ends), 1e-3 * Math.max(...ends), 1e-12);
    const last = Math.max((3 * (2 - low)) / wide, 4);
    const half = [];
    for (let i = 0; i < 80; i += 1) half.push((1e-2 / wide) * ((last * wide) / 1e-2) ** (i / 79));
    const fine = [];
    for (let i = 1; i <= 40; i += 1) fine.push(i / 40);
    const positive = [...new Set([...half, ...fine])].sort((x, y) => x - y);
    const theta = [...half.map((t) => -t).reverse(), 0, ...positive];
    const table = theta.map(moments);
    const zero = table[half.length][0];
    const guide = {
      steps,
      theta,
      logNorm: table.map((row) => steps * (row[0] - zero)),
      level: table.map((row) => steps * row[1]),
      spread: table.map((row) => Math.sqrt(steps) * row[2]),
      losses,
      density,
      base: Math.log1p(-mechanism.q),
      zero: half.length,
    };
    guide.tails = [tailsOf(guide, 0), tailsOf(guide, 1)];
    guide.densities = densitiesOf(guide, 1);
    return guide;
  }

  const normAt = (guide, theta) => interpolate(theta, guide.theta, guide.logNorm);
  const tilt = (guide, level) => interpolate(level, guide.level, guide.theta);

  function tailsOf(guide, shift) {
    const offset = shift === 0 ? 0 : normAt(guide, shift);
    return guide.theta.map((t, i) => {
      const d = t - shift;
      const width = Math.abs(d) * guide.spread[i];
      const mills = Math.log(0.5 * S.erfcx(width / Math.SQRT2));
      const near = Math.min(guide.logNorm[i] - d * guide.level[i] - offset + mills, -1e-300);
      return t >= shift ? near : Math.log(-Math.expm1(near));
    });
  }

  function densitiesOf(guide, shift) {
    const offset = shift * normAt(guide, shift);
    return guide.theta.map((t, i) => guide.logNorm[i] - (t - shift) * guide.level[i] - offset
      - Math.log(guide.spread[i] * Math.sqrt(2 * Math.PI) + 1e-300));
  }

  /** The width of cells that adds about `variance` to the sum tilted to a level. */
  function widthFor(guide, level, variance) {
    const spread = interpolate(level, guide.level, guide.spread);
    const theta = tilt(guide, level);
    const n = guide.losses.length;
    let top = -Infinity;
    for (let i = 0; i < n; i += 1) top = Math.max(top, guide.density[i] + theta * guide.losses[i]);
    const weight = new Float64Array(n);
    let total = 0;
    for (let i = 0; i < n; i += 1) {
      weight[i] = Math.exp(guide.density[i] + theta * guide.losses[i] - top);
      total += weight[i];
    }
    const coarsest = Math.min((0.5 * spread) / Math.sqrt(guide.steps), Math.sqrt((6 * spread) / guide.steps));
    const least = Math.sqrt((6 * variance) / guide.steps);
    let width = coarsest;
    while (width > least) {
      let added = 0;
      for (let i = 0; i < n; i += 1) {
        const rest = (guide.losses[i] - guide.base) % width;
        added += weight[i] * rest * (width - rest);
      }
      if ((guide.steps * added) / total < 0.8 * variance) break;
      width *= 0.85;
    }
    return 0.9 * Math.max(width, Math.min(least, coarsest)) + 1e-13;
  }

  /** Chernoff's parameters for levels that the tilted sum rarely falls below or exceeds. */
  function slopesFor(guide, theta, logOutside) {
    const here = normAt(guide, theta);
    let bottom = guide.theta[0];
    let top = guide.theta[guide.theta.length - 1];
    for (let i = 0; i < guide.theta.length; i += 1) {
      const t = guide.theta[i];
      const exponent = guide.logNorm[i] - here - (t - theta) * guide.level[i];
      if (exponent >= logOutside) continue;
      if (t < theta) bottom = t;
      if (t > theta) {
        top = t;
        break;
      }
    }
    return [theta - bottom, top - theta];
  }

  // --- the law of the sum ---------------------------------------------------------------------

  const twiddles = new Map();

  /** In-place complex transform of a length that is a power of two, exp(-2 pi i m k / n). */
  function fft(re, im) {
    const n = re.length;
    for (let i = 1, j = 0; i < n; i += 1) {
      let bit = n >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) {
        [re[i], re[j]] = [re[j], re[i]];
        [im[i], im[j]] = [im[j], im[i]];
      }
    }
    if (!twiddles.has(n)) {
      const c = new Float64Array(n >> 1);
      const s = new Float64Array(n >> 1);
      for (let k = 0; k < n >> 1; k += 1) {
        c[k] = Math.cos((2 * Math.PI * k) / n);
        s[k] = -Math.sin((2 * Math.PI * k) / n);
      }
      twiddles.set(n, [c, s]);
    }
    const [c, s] = twiddles.get(n);
    for (let size = 2; size <= n; size *= 2) {
      const half = size >> 1;
      const stride = n / size;
      for (let start = 0; start < n; start += size) {
        for (let k = 0, w = 0; k < half; k += 1, w += stride) {
          const p = start + k;
          const r = p + half;
          const xr = re[r] * c[w] - im[r] * s[w];
          const xi = re[r] * s[w] + im[r] * c[w];
          re[r] = re[p] - xr;
          im[r] = im[p] - xi;
          re[p] += xr;
          im[p] += xi;
        }
      }
    }
  }

  /** The law of the sum of `steps` draws, tilted by `rate`, where the tilted sum mostly is. */
  function compose(law, rate, steps, slopes, logOutside, whole = false) {
    const [tilted, logStep, error] = tilting(law, rate);
    const [first, size, folded] = windowOf(tilted, law.first, steps, slopes, logOutside);
    const logNorm = steps * logStep;
    const exponents = Math.abs(logNorm)
      + Math.abs(rate) * Math.max(Math.abs(first), Math.abs(first + size));
    let relative = Math.expm1(steps * error)
      + 4 * UNIT * (2 + exponents + steps * (1 + Math.log(tilted.length)));
    const centred = centre(tilted);
    const shift = first - steps * (law.first + centred.largest);
    const total = { first, size, rate, logNorm, folded };
    const counts = whole ? null : counting(centred, steps, size);
    if (counts !== null) {
      const [frequencies, leftOut] = counts;
      Object.assign(total, fewPowers(centred, steps, size, shift, frequencies));
      total.each += leftOut;
      total.square += leftOut * Math.sqrt(size);
    } else {
      if (size > LONGEST) throw TOO_LONG;
      Object.assign(total, allMasses(centred, steps, size, shift));
      relative += 4 * UNIT * size;
    }
    total.relative = relative;
    return total;
  }

  function tilting(law, rate) {
    const n = law.mass.length;
    const logs = new Float64Array(n);
    let top = -Infinity;
    for (let k = 0; k < n; k += 1) {
      logs[k] = Math.log(law.mass[k]) + rate * (law.first + k);
      if (logs[k] > top) top = logs[k];
    }
    const tilted = new Float64Array(n);
    let total = 0;
    let error = 0;
    for (let k = 0; k < n; k += 1) {
      tilted[k] = Math.exp(Math.max(logs[k] - top, -690));
      total += tilted[k];
      const exponents = 2 * Math.abs(rate * (law.first + k)) + Math.abs(Math.max(logs[k], -1e3)) + Math.abs(top);
      error = Math.max(error, law.relative[k] + 4 * UNIT * (2 + exponents));
    }
    for (let k = 0; k < n; k += 1) tilted[k] /= total;
    // a plain sum rounds more than NumPy's pairwise one: all masses alike, by n units at most
    return [tilted, top + Math.log(total), error + UNIT * n];
  }

  /** A law of sum one, counted from its largest mass, without that mass. */
  function centre(tilted) {
    const n = tilted.length;
    let largest = 0;
    for (let k = 1; k < n; k += 1) if (tilted[k] > tilted[largest]) largest = k;
    const rest = tilted.slice();
    rest[largest] = 0;
    let others = 0;
    let square = 0;
    let deviation = 0;
    for (let k = 0; k < n; k += 1) {
      others += rest[k];
      square += rest[k] * rest[k];
      deviation += rest[k] * Math.abs(k - largest);
    }
    return { rest, largest, first: -largest, others, norm: Math.sqrt(square), deviation };
  }

  const modulo = (x, size) => x - Math.floor(x / size) * size;

  /** m k modulo a power of two of at most 2^30, exactly. */
  function productModulo(m, k, size) {
    const high = Math.floor(m / 32768);
    const low = m - high * 32768;
    return modulo(modulo(high * k, size) * 32768 + low * k, size);
  }

  function fold(law, size) {
    const out = new Float64Array(size);
    let place = modulo(law.first, size);
    for (let k = 0; k < law.rest.length; k += 1) {
      out[place] += law.rest[k];
      place = place + 1 === size ? 0 : place + 1;
    }
    return out;
  }

  function allMasses(law, steps, size, shift) {
    const entry = 8 * Math.log2(size) * UNIT;
    const re = fold(law, size);
    const im = new Float64Array(size);
    fft(re, im);
    const half = size / 2 + 1;
    const x = re.slice(0, half);
    const y = im.slice(0, half);
    for (let m = 0; m < half; m += 1) x[m] -= law.others;
    const p = powersOf(x, y, entry * law.others, steps, size);
    let weight = 0;
    let weightSquare = 0;
    for (let m = 0; m < half; m += 1) {
      const r = Math.hypot(p.re[m], p.im[m]);
      weight += r;
      weightSquare += r * r;
      re[m] = p.re[m];
      im[m] = -p.im[m];
      if (m > 0 && m < size / 2) {
        re[size - m] = p.re[m];
        im[size - m] = p.im[m];
      }
    }
    im[0] = 0;
    im[size / 2] = 0;
    fft(re, im);
    const mass = new Float64Array(size);
    const start = modulo(shift, size);
    for (let i = 0; i < size; i += 1) {
      const from = i + start;
      mass[i] = Math.max(re[from >= size ? from - size : from] / size, FLOOR);
    }
    const each = p.each + (2 * entry * weight) / size + p.leftOut + FLOOR;
    let square = p.square + steps * entry * law.norm + p.leftOut * Math.sqrt(size);
    square += entry * Math.sqrt((2 * weightSquare) / size) + FLOOR * Math.sqrt(size);
    return { mass, each, square };
  }

  /** phi^T of phi = 1 + x + i y, and what it gets wrong. */
  function powersOf(x, y, entry, steps, size) {
    const n = x.length;
    const re = new Float64Array(n);
    const im = new Float64Array(n);
    let each = 0;
    let square = 0;
    let leftOut = 0;
    for (let m = 0; m < n; m += 1) {
      const length = Math.hypot(x[m], y[m]);
      const logSize = length < 0.5
        ? 0.5 * Math.log1p(2 * x[m] + length * length)
        : Math.log(Math.hypot(1 + x[m], y[m]));
      const logPower = (steps - 1) * Math.max(logSize, Math.log(Math.exp(logSize) + entry));
      if (steps * logSize > NEGLIGIBLE) {
        const angle = steps * Math.atan2(y[m], 1 + x[m]);
        const r = Math.exp(steps * logSize);
        re[m] = r * Math.cos(angle);
        im[m] = r * Math.sin(angle);
      } else leftOut += Math.exp(Math.min(steps * logSize, 0));
      const weight = Math.exp(Math.min(logPower, 1));
      const own = weight * (72 * steps * UNIT * length + 4 * UNIT);
      each += own + steps * entry * weight;
      square += own * own;
    }
    return {
      re, im, each: (2 * each) / size, square: Math.sqrt((2 * square) / size), leftOut: (2 * leftOut) / size,
    };
  }

  /** The frequencies that count, and what the others add to each mass; null if all may count. */
  function counting(law, steps, size) {
    const coarse = 2 ** Math.max(Math.ceil(Math.log2(512 * law.deviation + 64)), 6);
    if (4 * coarse > size || coarse > LONGEST) return null;
    const entry = 8 * Math.log2(coarse) * UNIT;
    const re = fold(law, coarse);
    const im = new Float64Array(coarse);
    fft(re, im);
    const ratio = size / coarse;
    const counts = [];
    let leftOut = 0;
    for (let m = 0; m <= coarse / 2; m += 1) {
      const magnitude = Math.hypot(re[m] + (1 - law.others), im[m]) + entry
        + (Math.PI / coarse) * law.deviation * (1 + 1e-9);
      const logPower = steps * Math.log(magnitude);
      if (logPower > NEGLIGIBLE) counts.push(m);
      else leftOut += Math.exp(logPower);
      if (counts.length * ratio > MOST_FREQUENCIES) return null;
    }
    if (counts.length * ratio * law.rest.length > 50 * size && size <= LONGEST) return null;
    const frequencies = new Set();
    for (const m of counts) {
      const start = m * ratio - Math.floor(ratio / 2);
      for (let i = 0; i <= ratio; i += 1) {
        if (start + i >= 0 && start + i <= size / 2) frequencies.add(start + i);
      }
    }
    return [[...frequencies].sort((s, t) => s - t), (2 * leftOut) / coarse];
  }

  /** phi^T at some frequencies, with the bounds on the errors that come of them. */
  function fewPowers(law, steps, size, shift, frequencies) {
    const n = law.rest.length;
    const rows = Math.ceil(n / BLOCK);
    const count = frequencies.length;
    const x = new Float64Array(count);
    const y = new Float64Array(count);
    const ci = new Float64Array(BLOCK);
    const si = new Float64Array(BLOCK);
    const unit = (-2 * Math.PI) / size;
    for (let f = 0; f < count; f += 1) {
      const m = frequencies[f];
      for (let b = 0; b < BLOCK; b += 1) {
        const angle = unit * productModulo(m, b, size);
        ci[b] = Math.cos(angle);
        si[b] = Math.sin(angle);
      }
      let sumR = 0;
      let sumI = 0;
      for (let row = 0; row < rows; row += 1) {
        const start = row * BLOCK;
        const stop = Math.min(BLOCK, n - start);
        let r = 0;
        let i = 0;
        for (let b = 0; b < stop; b += 1) {
          r += law.rest[start + b] * ci[b];
          i += law.rest[start + b] * si[b];
        }
        const angle = unit * productModulo(m, modulo(law.first + start, size), size);
        const c = Math.cos(angle);
        const s = Math.sin(angle);
        sumR += r * c - i * s;
        sumI += r * s + i * c;
      }
      x[f] = sumR - law.others;
      y[f] = sumI;
    }
    // the rows are added one after the other here, so their number takes its logarithm's place
    const entry = UNIT * (64 + 2 * (BLOCK + 16 + rows));
    const p = powersOf(x, y, entry * law.others, steps, size);
    const inverse = 128 * UNIT;
    let weight = 0;
    let square = 0;
    for (let f = 0; f < count; f += 1) {
      const r = Math.hypot(p.re[f], p.im[f]);
      weight += r;
      square += (steps * entry * law.others + inverse * r) ** 2;
      const angle = unit * productModulo(frequencies[f], modulo(-shift, size), size);
      const c = Math.cos(angle);
      const s = Math.sin(angle);
      const factor = frequencies[f] > 0 && frequencies[f] < size / 2 ? 2 : 1;
      [p.re[f], p.im[f]] = [factor * (p.re[f] * c - p.im[f] * s), factor * (p.re[f] * s + p.im[f] * c)];
    }
    return {
      frequencies,
      re: p.re,
      im: p.im,
      each: p.each + (inverse * weight) / size + p.leftOut,
      square: p.square + Math.sqrt(square / size) + p.leftOut * Math.sqrt(size),
    };
  }

  /** First index, length and a bound on the tilted sum's mass outside. */
  function windowOf(tilted, start, steps, slopes, logOutside) {
    const lowest = steps * start;
    const highest = steps * (start + tilted.length - 1);
    const low = endOf(tilted, start, -1, steps, slopes[0], logOutside);
    const high = endOf(tilted, start, 1, steps, slopes[1], logOutside);
    const first = low === null ? lowest : Math.max(lowest, -low - 1);
    const last = high === null ? highest : Math.min(highest, high + 1);
    const needed = Math.max(last - first + 4, 16);
    const size = Math.min(2 ** (Math.floor(Math.log2(needed)) + 1), LARGEST);
    let missed = (first > lowest ? 1 : 0) + (last < highest ? 1 : 0);
    if (first + size <= last + 1) missed = Infinity;
    return [first - 1, size, Math.min(missed * Math.exp(logOutside), 1)];
  }

  /** A level that the sum reaches with at most probability exp(logOutside), by Chernoff. */
  function endOf(tilted, start, sign, steps, slope, logOutside) {
    const n = tilted.length;
    let middle = 0;
    for (let k = 0; k < n; k += 1) middle += tilted[k] * sign * (start + k);
    let best = Infinity;
    const edge = Math.max(sign * start - middle, sign * (start + n - 1) - middle);
    for (const trial of [0.5 * slope, slope, 2 * slope]) {
      if (!(trial > 0) || trial * edge > 600) continue;
      let mean = 0;
      let most = 0;
      for (let k = 0; k < n; k += 1) {
        const exponent = trial * (sign * (start + k) - middle);
        mean += tilted[k] * Math.exp(Math.max(exponent, -600));
        most = Math.max(most, Math.abs(exponent));
      }
      const slack = UNIT * (16 + 4 * most + n);
      best = Math.min(best, steps * middle + (steps * (Math.log(mean) + slack) - logOutside) / trial);
    }
    return best === Infinity ? null : Math.ceil(best);
  }

  // --- tails of the whole run -----------------------------------------------------------------

  /** The tail of a tilted sum that is summed: from an index on (rate >= 0), or below it. */
  function makeTail(total, rate, offset, atEnd) {
    const decay = Math.abs(rate);
    const up = rate >= 0;
    let count = total.size;
    let squares = total.size;
    if (decay * count > 1) {
      count = Math.min(count, 1 / -Math.expm1(-decay));
      squares = Math.min(squares, 1 / -Math.expm1(-2 * decay));
    }
    const error = total.folded + Math.min(total.each * count, total.square * Math.sqrt(squares));
    let cached = null;
    let sums = null;
    if (!total.mass) sums = geometric(total, decay, up ? 1 : -1);
    else {
      const m = total.mass;
      const n = m.length;
      const r = Math.exp(-decay);
      cached = new Float64Array(n);
      if (up) {
        cached[n - 1] = m[n - 1];
        for (let i = n - 2; i >= 0; i -= 1) cached[i] = m[i] + r * cached[i + 1];
      } else for (let i = 1; i < n; i += 1) cached[i] = r * (m[i - 1] + cached[i - 1]);
    }
    const summed = (place) => {
      if (cached) return cached[place];
      return up ? sums(place, total.size - place) : Math.exp(-decay) * sums(place - 1, place);
    };
    const bounds = (index) => {
      const place = clip(index - total.first, 0, total.size - 1);
      const inside = total.first + place;
      const scale = Math.exp(Math.min(total.logNorm + offset - rate * inside, 690));
      const value = summed(place);
      let low = clip(scale * (value * (1 - total.relative) - error), 0, 1);
      let high = clip(scale * (value * (1 + total.relative) + error) + atEnd, 0, 1);
      if (up ? index > inside : index < inside) low = 0;
      if (up ? index < inside : index > inside) high = 1;
      return [low, high];
    };
    const other = ([low, high]) => [1 - high, 1 - low];
    return {
      bounds,
      up: (index) => (up ? bounds(index) : other(bounds(index))),
      down: (index) => (up ? other(bounds(index)) : bounds(index)),
    };
  }

  /** Sums over n < count of mass(place + sign n) exp(-decay n), from the spectrum. */
  function geometric(total, decay, sign) {
    const { frequencies, re, im, size } = total;
    const unit = (2 * Math.PI) / size;
    const rate = Math.exp(-decay);
    const n = frequencies.length;
    const kr = new Float64Array(n);
    const ki = new Float64Array(n);
    for (let f = 0; f < n; f += 1) {
      const omega = unit * frequencies[f];
      // one minus exp(-decay + i sign omega), without cancellation
      const dr = -Math.expm1(-decay) + 2 * rate * Math.sin(0.5 * omega) ** 2;
      const di = -sign * rate * Math.sin(omega);
      const norm = size * (dr * dr + di * di);
      kr[f] = (re[f] * dr + im[f] * di) / norm;
      ki[f] = (im[f] * dr - re[f] * di) / norm;
    }
    return (place, count) => {
      const last = Math.exp(-decay * count);
      const at = modulo(place, size);
      const far = modulo(count, size);
      let out = 0;
      for (let f = 0; f < n; f += 1) {
        const m = frequencies[f];
        if (m === 0) {
          // both sides of the ratio cancel at a small decay
          const terms = decay === 0 ? count : Math.expm1(-decay * count) / Math.expm1(-decay);
          out += (re[f] / size) * terms;
          continue;
        }
        const here = unit * productModulo(m, at, size);
        const end = sign * unit * productModulo(m, far, size);
        const hr = Math.cos(here);
        const hi = Math.sin(here);
        out += (kr[f] * hr - ki[f] * hi) * (1 - last * Math.cos(end))
          + (kr[f] * hi + ki[f] * hr) * last * Math.sin(end);
      }
      return Math.max(out, 0);
    };
  }

  /** Tails after all steps of the dominating pair and of the lattice statistic. */
  function runTails(step, guide, theta, logOutside) {
    const { steps } = guide;
    const h = step.width;
    const rate = theta * h;
    const base = steps * step.base;
    const slopes = slopesFor(guide, theta, logOutside).map((s) => s * h);
    const law = compose(step.above, rate, steps, slopes, logOutside);
    const pair = (nu, mu, total) => ({
      nu, mu, first: total.first, size: total.size,
      logRatio: (index) => base + index * h,
      index: (value) => Math.floor((value - base) / h),
    });
    const above = pair(
      makeTail(law, rate, 0, rate >= 0 ? 0 : steps * step.atMinusInfinity),
      makeTail(law, rate - h, base, rate >= h ? steps * step.atInfinity : 0),
      law,
    );
    const nu = compose(step.nu, rate, steps, slopes, logOutside);
    const mu = compose(step.mu, rate - h, steps, slopes, logOutside);
    return [above, pair(makeTail(nu, rate, 0, 0), makeTail(mu, rate - h, 0, 0), nu)];
  }

  /** The sum of the small losses and where the large ones begin: two of them are far rarer than size. */
  function fewLarge(mechanism, low, high, size) {
    const { a, q, steps } = mechanism;
    const logChance = 0.5 * (Math.log(REST) + size) - Math.log(steps);
    const excess = (x) => {
      const without = Math.log1p(-q) + S.logNormalCdf(-x);
      return S.logAddExp(without, Math.log(q) + S.logNormalCdf(a - x)) - logChance;
    };
    if (!(excess(low) > 0 && excess(high) < 0)) return null;
    let from = low;
    let to = high;
    for (let i = 0; i < 60; i += 1) {
      const middle = 0.5 * (from + to);
      if (excess(middle) > 0) from = middle;
      else to = middle;
    }
    return [saddle(mechanism, low, from), loss(mechanism, from)];
  }

  /** What runTails returns, by the number of steps with a loss above cut: none, one, or more. */
  function splitTails(step, guide, theta, logOutside, cut) {
    const { steps } = guide;
    const h = step.width;
    const upper = theta > 0;
    const end = Math.floor((cut - step.base) / h) + 1;
    const tilts = upper ? [Math.max(theta, 1), 1] : [theta, -1e-9];
    const counts = [steps, steps - 1];

    const split = (law) => Math.min(Math.max(end - law.first, 1), law.mass.length);
    const sums = (law, tilted) => {
      const n = split(law);
      const small = { first: law.first, mass: law.mass.slice(0, n), relative: law.relative.slice(0, n) };
      return tilts.map((tilt, i) => {
        // what is outside of the others' window may be as improbable as two large losses
        const outside = i ? Math.min(logOutside, others) : logOutside;
        const slopes = slopesFor(guide, tilt, outside).map((s) => s * h);
        return compose(small, (tilt - tilted) * h, counts[i], slopes, outside, true);
      });
    };
    let chance = 0;
    for (let i = split(step.above); i < step.above.mass.length; i += 1) chance += step.above.mass[i];
    const others = clip(Math.log(Math.max(steps * chance, 1e-300)), -42, -20);
    const tail = (law, totals, shift, atEnd) => {
      const n = split(law);
      const [none, one] = totals.map((total, i) => makeTail(
        total, total.rate - shift * h, shift * counts[i] * step.base, i ? 0 : steps * atEnd,
      ));
      const first = totals[1].first - 1;
      const size = totals[1].size + 2;
      const points = law.points.slice(n);
      const last = Math.max(
        totals[0].first + totals[0].size - 1,
        totals[1].first + totals[1].size + (points.length ? points[points.length - 1] : 0),
      );
      const ends = [new Float64Array(size), new Float64Array(size)];
      for (let i = 0; i < size; i += 1) [ends[0][i], ends[1][i]] = one.bounds(first + i);
      const large = law.mass.slice(n);
      let relative = 0;
      let chance = 0;
      for (let i = 0; i < large.length; i += 1) {
        large[i] *= Math.exp(shift * (step.base + points[i] * h));
        relative = Math.max(relative, law.relative[n + i]);
        chance += large[i];
      }
      relative += UNIT * (64 + 4 * large.length);
      chance = chance * (1 + relative) + atEnd;
      const rest = 0.5 * steps * (steps - 1) * chance * chance;
      const upTo = new Float64Array(large.length + 1);
      const fromOn = new Float64Array(large.length + 1);
      for (let i = 0; i < large.length; i += 1) upTo[i + 1] = upTo[i] + large[i];
      for (let i = large.length - 1; i >= 0; i -= 1) fromOn[i] = fromOn[i + 1] + large[i];
      const bounds = (index) => {
        const [low, high] = none.bounds(index);
        // the place that a large loss leaves to the others falls with the loss
        const start = index - first;
        const beyond = countBelow(points, start - (size - 1));
        const inside = Math.max(countBelow(points, start + 1), beyond);
        let [more, most] = ends.map((e) => e[size - 1] * upTo[beyond] + e[0] * fromOn[inside]);
        for (let i = beyond; i < inside; i += 1) {
          more += large[i] * ends[0][start - points[i]];
          most += large[i] * ends[1][start - points[i]];
        }
        const least = Math.min(low + steps * more * (1 - relative), 1);
        return [least, Math.min(high + steps * most * (1 + relative) + rest, 1)];
      };
      return { bounds, up: bounds, down: bounds, first: Math.min(totals[0].first, totals[1].first), last };
    };
    const base = steps * step.base;
    const pair = (nu, mu) => ({
      nu, mu, first: nu.first, size: nu.last - nu.first + 1,
      logRatio: (index) => base + index * h,
      index: (value) => Math.floor((value - base) / h),
    });
    const totals = sums(step.above, 0);
    const above = pair(
      tail(step.above, totals, 0, upper ? 0 : step.atMinusInfinity),
      tail(step.above, totals, 1, upper ? step.atInfinity : 0),
    );
    return [above, pair(tail(step.nu, sums(step.nu, 0), 0, 0), tail(step.mu, sums(step.mu, 1), 0, 0))];
  }

  /** How many of the increasing points lie below a value. */
  function countBelow(points, value) {
    let low = 0;
    let high = points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The largest worth of a threshold test: the best may lie far from the level. */
  function bestTest(pair, start, worth) {
    let centre = pair.index(start);
    let best = -Infinity;
    for (let round = 0; round < ROUNDS; round += 1) {
      let found = worth(centre);
      let place = centre;
      for (let move = 1; move < 2 ** 21; move *= 2) {
        for (const index of [centre - move, centre + move]) {
          const value = worth(index);
          if (value > found) [found, place] = [value, index];
        }
      }
      if (!(found > best)) break;
      [best, centre] = [found, place];
    }
    return Math.max(best, 0);
  }

  /** The largest epsilon that a threshold test rules out. */
  function ruledOut(pair, direction, sign, near, delta) {
    return bestTest(pair, sign * near, (index) => {
      const [like, other] = direction(pair, index);
      if (!(like[0] > delta && other[1] > 1e-290)) return -Infinity;
      return Math.log(like[0] - delta) - Math.log(other[1]);
    });
  }

  /** The lowest index whose tail under nu is at most kappa, by the lower (0) or upper (1) bound. */
  function crossing(pair, kappa, which) {
    let low = pair.first - 1;
    let high = pair.first + pair.size - 1;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (pair.nu.up(middle)[which] > kappa) low = middle;
      else high = middle;
    }
    return high;
  }

  // --- the largest success --------------------------------------------------------------------

  function powerAbove(pair, kappa) {
    const near = crossing(pair, kappa, 0);
    let best = 1;
    for (let index = near - 2; index < near + 2; index += 1) {
      const ratio = Math.exp(Math.min(pair.logRatio(index), 690));
      const bound = pair.mu.up(index)[1] + ratio * (kappa - pair.nu.up(index)[0]);
      best = Math.min(best, Math.max(bound, 0));
    }
    return [best * (1 + 1e-15), near];
  }

  function powerBelow(pair, kappa) {
    const index = crossing(pair, kappa, 1);
    const larger = pair.nu.up(index - 1)[1];
    const smaller = pair.nu.up(index)[1];
    if (smaller > kappa) return 0;
    const share = larger > kappa ? clip((kappa - smaller) / (larger - smaller), 0, 1) : 0;
    const power = pair.mu.up(index)[0];
    return (power + share * Math.max(pair.mu.up(index - 1)[0] - power, 0)) * (1 - 1e-15);
  }

  /** How much of a bound on the power is due to roundings and the window. */
  function noiseAt(pair, index) {
    const [low, high] = pair.nu.bounds(index);
    const value = (high - low) * Math.exp(Math.min(pair.logRatio(index), 690));
    return Number.isFinite(value) ? value : 0;
  }

  /** Members of a list of levels that are within 1.5 deviations of a tilt's mean. */
  function groupsOf(guide, levels, members) {
    const order = members.slice().sort((i, j) => levels[i] - levels[j]);
    const groups = [];
    for (const i of order) {
      const group = groups[groups.length - 1];
      const first = group ? levels[group[0]] : -Infinity;
      const spread = group ? interpolate(first, guide.level, guide.spread) : 0;
      if (levels[i] - first > 3 * spread) groups.push([i]);
      else group.push(i);
    }
    return groups.map((g) => [Math.max(tilt(guide, levels[g[g.length >> 1]]), 0), g]);
  }

  /** Roughly the level that the sum exceeds under nu with probability kappa. */
  function levelOf(guide, kappa) {
    const falling = guide.tails[0].slice(guide.zero).map((v) => -v);
    return interpolate(-Math.log(kappa), falling, guide.level.slice(guide.zero));
  }

  /** Sums of all losses, or of the small ones where large ones raise a kappa's level: [plan, members]. */
  function plansOf(mechanism, low, high, kappa) {
    const whole = { guide: saddle(mechanism, low, high), cut: Infinity };
    const known = new Map([[null, [whole, []]]]);
    kappa.forEach((k, i) => {
      const decades = Math.floor(0.5 * Math.log10(k));
      if (!known.has(decades)) {
        const found = k < LEAST_APART ? null : fewLarge(mechanism, low, high, 2 * decades * Math.LN10);
        known.set(decades, found && [{ guide: found[0], cut: found[1] }, []]);
      }
      const small = known.get(decades);
      let key = null;
      if (small) {
        const { guide } = small[0];
        const level = levelOf(guide, k);
        const spread = interpolate(level, guide.level, guide.spread);
        if (levelOf(whole.guide, k) - level > APART * spread) key = decades;
      }
      known.get(key)[1].push(i);
    });
    return [...known.values()].filter((plan) => plan && plan[1].length);
  }

  /** Enclose gamma at each kappa in [1e-200, 1): [lower, upper]. */
  function successCurve(mechanism, kappa, tolerance) {
    const smallest = Math.min(...kappa);
    const [low, high] = reach(mechanism, 1e-3 * tolerance * smallest);
    const plans = plansOf(mechanism, low, high, kappa);
    const level = kappa.slice();
    let width = Infinity;
    for (const [{ guide }, members] of plans) {
      for (const i of members) {
        level[i] = levelOf(guide, kappa[i]);
        const power = clip(Math.exp(interpolate(level[i], guide.level, guide.tails[1])), kappa[i], 1);
        const logDensity = interpolate(level[i], guide.level, guide.densities);
        const density = Math.exp(clip(logDensity, -600, 600));
        width = Math.min(width, widthFor(guide, level[i], (tolerance * power) / (0.75 * density)));
      }
    }
    let least = narrowest(mechanism, low, high);
    // cells grow beyond the largest cut, if all sums are of small losses
    let stretched = Infinity;
    const cut = Math.max(...plans.map(([plan]) => plan.cut));
    if (width < least && cut < Infinity) [least, stretched] = [narrowest(mechanism, low, high, cut), cut];
    width = Math.max(width, least);
    const lower = kappa.slice();
    const upper = kappa.map(() => 1);
    let gap = Infinity;
    for (let round = 0; round < ROUNDS; round += 1) {
      const step = oneStep(mechanism.a, mechanism.q, width, low, high, stretched);
      const slack = Math.exp(mechanism.steps * step.ratioError * 1.01);
      const noise = kappa.map(() => Infinity);
      let again = kappa.map((_, i) => i).filter((i) => upper[i] - lower[i] > tolerance * upper[i]);
      let tooLong = false;
      for (let pass = 0; pass < 2 && again.length; pass += 1) {
        const next = [];
        const groups = plans.flatMap(([plan, of]) => (
          groupsOf(plan.guide, level, of.filter((i) => again.includes(i))).map((g) => [plan, ...g])));
        for (const [{ guide, cut: large }, theta, members] of groups) {
          const norm = normAt(guide, theta);
          const outside = clip(Math.min(...members.map((i) => (
            Math.log(1e-2 * tolerance * kappa[i]) - norm + theta * level[i]))), -42, -12);
          let pairs;
          try {
            pairs = large < Infinity ? splitTails(step, guide, Math.max(theta, 1), outside, large)
              : runTails(step, guide, theta, outside);
          } catch (error) {
            if (error !== TOO_LONG) throw error;
            tooLong = true;
            continue;
          }
          for (const i of members) {
            const [bound, index] = powerAbove(pairs[0], kappa[i]);
            upper[i] = Math.min(upper[i], slack * bound);
            lower[i] = Math.max(lower[i], powerBelow(pairs[1], kappa[i]));
            const reached = pairs[0].logRatio(index);
            // a level that one large loss reaches tells nothing of the tilt of the others
            level[i] = large < Infinity ? Math.min(reached, level[i]) : reached;
            const found = noiseAt(pairs[0], index) / upper[i];
            if (found > 0.1 * tolerance && found < 0.5 * noise[i]) next.push(i);
            noise[i] = Math.min(found, noise[i]);
          }
        }
        again = next;
      }
      const before = gap;
      gap = Math.max(...kappa.map((_, i) => (upper[i] - lower[i]) / upper[i]));
      const tooWide = Math.max(...kappa.map((_, i) => (upper[i] - lower[i]) / upper[i]
        - (Number.isFinite(noise[i]) ? 2 * noise[i] : 0)));
      if (tooLong) least = 2 * width;
      else if (gap <= tolerance || width <= least || gap > 0.95 * before || tooWide < 0.8 * tolerance) break;
      const factor = 0.85 * Math.sqrt(tolerance / Math.max(tooWide, 0.1 * tolerance));
      width = Math.max(width * clip(factor, 0.05, 0.7), least);
    }
    return [lower, upper];
  }

  // --- epsilon --------------------------------------------------------------------------------

  const removed = (pair, index) => [pair.mu.up(index), pair.nu.up(index)];
  const added = (pair, index) => [pair.nu.down(index), pair.mu.down(index)];

  /** The dominating pair's profile, linear in exp(epsilon) between lattice points. */
  function profileAbove(pair, direction, sign, epsilon) {
    const middle = pair.index(sign * epsilon);
    const points = [];
    for (let index = middle - 1; index < middle + 3; index += 1) {
      const point = sign * pair.logRatio(index);
      const [like, other] = direction(pair, index);
      points.push([point, Math.max(like[1] - Math.exp(Math.min(point, 690)) * other[0], 0)]);
    }
    points.sort((s, t) => s[0] - t[0]);
    let j = 0;
    while (j < 2 && points[j + 1][0] < epsilon) j += 1;
    const share = clip(
      Math.expm1(epsilon - points[j][0]) / Math.expm1(points[j + 1][0] - points[j][0]), 0, 1,
    );
    return points[j][1] + share * (points[j + 1][1] - points[j][1]);
  }

  function profileBelow(pair, direction, sign, epsilon) {
    const middle = pair.index(sign * epsilon);
    let best = 0;
    for (let index = middle - 3; index < middle + 5; index += 1) {
      const [like, other] = direction(pair, index);
      best = Math.max(best, like[0] - Math.exp(Math.min(epsilon, 690)) * other[1]);
    }
    return best;
  }

  /** Roughly log delta at a level of the loss. */
  function scaleAt(guide, level) {
    const values = guide.level.map((v, i) => {
      const ratio = Math.min(guide.tails[0][i] + v - guide.tails[1][i], -1e-9);
      return guide.tails[1][i] + Math.log(-Math.expm1(ratio));
    });
    return interpolate(level, guide.level, values);
  }

  function guessOf(guide, size) {
    let start = guide.level.findIndex((v) => v >= 0);
    if (start < 0) start = guide.level.length - 1;
    const rising = guide.level.slice(start);
    const sizes = rising.map((v) => -Math.min(scaleAt(guide, v), 0));
    return Math.max(interpolate(-size, sizes, rising), 0);
  }

  /** Enclose the smallest epsilon >= 0 with delta(epsilon) <= delta: [lower, upper]. */
  function epsilon(mechanism, delta, tolerance) {
    const [low, high] = reach(mechanism, delta * 1e-3 * tolerance);
    let guide = saddle(mechanism, low, high);
    const lowest = mechanism.steps * Math.log1p(-mechanism.q);
    let least = narrowest(mechanism, low, high);
    const size = Math.log(delta);
    let guess = guessOf(guide, size);
    let cut = Infinity;
    const parted = fewLarge(mechanism, low, high, size);
    if (parted !== null) {
      const found = guessOf(parted[0], size);
      if (found < RARE * guess) [guide, cut, guess] = [...parted, found];
    }
    const levels = { 1: guess, "-1": -guess };
    const steep = Math.max(tilt(guide, guess), 1);
    let width = widthFor(guide, guess, (tolerance * Math.max(guess, 1e-3)) / steep);
    let stretched = Infinity;
    if (width < least && cut < Infinity) [least, stretched] = [narrowest(mechanism, low, high, cut), cut];
    width = Math.max(width, least);
    let lower = 0;
    let upper = Infinity;
    let gap = Infinity;
    for (let round = 0; round < ROUNDS; round += 1) {
      const step = oneStep(mechanism.a, mechanism.q, width, low, high, stretched);
      const slack = Math.exp(mechanism.steps * step.ratioError * 1.01);
      const found = [[0, 0]];
      let tooLong = false;
      for (const [direction, sign] of [[removed, 1], [added, -1]]) {
        const limit = sign > 0 ? Infinity : -lowest * (1 + 1e-12);
        if (Math.max(...found.map((f) => f[0])) >= limit) break;
        let pairs = null;
        let ends = [0, Infinity];
        for (let pass = 0; pass < 2; pass += 1) {
          let theta = tilt(guide, levels[sign]);
          if (cut < Infinity) theta = sign > 0 ? Math.max(theta, 1e-9) : Math.min(theta, -1e-9);
          const scale = normAt(guide, theta) - theta * levels[sign] + (sign > 0 ? levels[sign] : 0);
          const outside = clip(Math.log(1e-3 * tolerance) + size - scale, -42, -14);
          try {
            pairs = cut < Infinity ? splitTails(step, guide, theta, outside, cut)
              : runTails(step, guide, theta, outside);
          } catch (error) {
            if (error !== TOO_LONG) throw error;
            tooLong = true;
            break;
          }
          let end = invert((e) => profileAbove(pairs[0], direction, sign, e) <= delta / slack);
          end += Math.log(slack);
          const begin = cut < Infinity ? ruledOut(pairs[1], direction, sign, end, delta)
            : retreat((e) => profileBelow(pairs[1], direction, sign, e) > delta, end);
          end = Math.min(end, limit);
          ends = [begin, end];
          if (end === Infinity) break;
          const moved = Math.abs(levels[sign] - sign * end);
          levels[sign] = sign * end;
          if (moved < interpolate(levels[sign], guide.level, guide.spread)) break;
        }
        if (tooLong) break;
        found.push([Math.max(ends[0] * (1 - 1e-12) - 1e-15, 0), ends[1]]);
      }
      if (tooLong) least = 2 * width;
      else {
        lower = Math.max(lower, ...found.map((f) => f[0]));
        upper = Math.min(upper, Math.max(...found.map((f) => f[1])));
        const before = gap;
        gap = (upper - lower) / Math.max(upper, 1e-3);
        if (gap <= tolerance || width <= least || gap > 0.95 * before) break;
      }
      const factor = gap > 0 && gap < Infinity ? 0.85 * Math.sqrt(tolerance / gap) : 2;
      width = Math.max(width * clip(factor, 0.05, 0.7), least);
    }
    return [lower, upper];
  }

  /** Enclose delta(0), the total variation distance, at which both directions agree. */
  function distance(mechanism, tolerance) {
    let size = 0;
    let lower = 0;
    let upper = 1;
    let gap = Infinity;
    let share = 1;
    for (let round = 0; round < 2 * ROUNDS; round += 1) {
      const [low, high] = reach(mechanism, 1e-3 * tolerance * Math.exp(size));
      let guide = saddle(mechanism, low, high);
      let cut = Infinity;
      const parted = fewLarge(mechanism, low, high, size);
      if (parted !== null && (scaleAt(parted[0], 0) < scaleAt(guide, 0) + Math.log(RARE)
          || share * distanceWidth(guide, tolerance) < narrowest(mechanism, low, high))) {
        [guide, cut] = parted;
      }
      const guess = clip(scaleAt(guide, 0), -600, 0);
      if (round === 0) size = guess;
      const aimed = share * distanceWidth(guide, tolerance);
      let least = narrowest(mechanism, low, high);
      let stretched = Infinity;
      if (aimed < least && cut < Infinity) [least, stretched] = [narrowest(mechanism, low, high, cut), cut];
      const width = Math.max(aimed, least);
      const step = oneStep(mechanism.a, mechanism.q, width, low, high, stretched);
      const slack = Math.exp(mechanism.steps * step.ratioError * 1.01);
      const theta = Math.max(tilt(guide, 0), 1e-9);
      const outside = clip(Math.log(1e-3 * tolerance) + size - normAt(guide, theta), -42, -14);
      try {
        const [above, below] = cut < Infinity ? splitTails(step, guide, theta, outside, cut)
          : runTails(step, guide, theta, outside);
        upper = Math.min(upper, slack * profileAbove(above, removed, 1, -Math.log(slack)));
        lower = Math.max(lower, bestTest(below, 0, (index) => below.mu.up(index)[0] - below.nu.up(index)[1]));
      } catch (error) {
        if (error !== TOO_LONG) throw error;
        if (gap < 5e-3) break;
        share *= 2;
        continue;
      }
      const before = gap;
      gap = (upper - lower) / upper;
      const moved = Math.log(upper) - size;
      if (gap <= tolerance) break;
      if (Math.abs(moved) >= 1) size = clip(size + moved, -600, 0);
      else if (width <= least || gap > 0.95 * before) break;
      else share *= clip(0.85 * Math.sqrt(tolerance / gap), 0.05, 0.7);
    }
    return [lower, upper];
  }

  /** The width of cells at which delta(0) is about as wide as wanted. */
  function distanceWidth(guide, tolerance) {
    const size = clip(scaleAt(guide, 0), -600, 0);
    const logDensity = Math.max(interpolate(0, guide.level, guide.densities), -600);
    return widthFor(guide, 0, (tolerance * Math.exp(Math.min(size - logDensity, 600))) / 0.75);
  }

  /** The smallest epsilon that fits, from above; infinity beyond 1e6. */
  function invert(fits) {
    if (fits(0)) return 0;
    let low = 0;
    let high = 1;
    while (!fits(high)) {
      [low, high] = [high, 2 * high];
      if (high > 1e6) return Infinity;
    }
    while (high - low > 1e-10 * high) {
      const middle = 0.5 * (low + high);
      if (middle === low || middle === high) break;
      if (fits(middle)) high = middle;
      else low = middle;
    }
    return high;
  }

  /** The largest epsilon below `upper` that fails, from below, or zero. */
  function retreat(fails, upper) {
    let move = 1e-6 * upper;
    while (move < upper && !fails(upper - move)) move *= 4;
    if (!(move > 0 && move < upper && upper < Infinity)) return 0;
    let low = upper - move;
    let high = upper;
    while (high - low > 1e-10 * high) {
      const middle = 0.5 * (low + high);
      if (middle === low || middle === high) break;
      if (fails(middle)) low = middle;
      else high = middle;
    }
    return low;
  }

  return { distance, epsilon, successCurve };
}
