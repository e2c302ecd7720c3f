/* The report of reconrisk.risk for one setting, and the curves around it.
 *
 * Entries have the keys of the Python report. Each is {lower, upper} or, for probabilities and
 * bounds that underflow, {logLower, logUpper} as well; {reason} says why there is none. Entries
 * that need the composition of sub-sampled steps are certified enclosures from accountant.js; all
 * others are closed forms.
 */
"use strict";

function reconriskReport(special, bounds, accountant) {
  const S = special;
  const B = bounds;
  const A = accountant;

  /** What a setting is and between which values; the page's controls are made from this. */
  const FIELDS = {
    sigma: { low: 1e-2, high: 1e4, value: 1 },
    q: { low: 1e-7, high: 1, value: 1 },
    steps: { low: 1, high: 1e7, whole: true, value: 100 },
    surprise: { low: 0.302, high: 1e4, value: 1 },
    dimension: { low: 2, high: 1e9, whole: true, value: 784 },
    range: { low: 1e-2, high: 1e4, value: 1 },
    norm: { low: 1e-2, high: 1e6, value: 9.2 },
    clip: { low: 1e-4, high: 1e4, value: 1 },
    contrast: { low: 0, high: 1, value: 1 },
    mse: { low: 1e-12, high: 1e6, value: 0.01 },
    psnr: { low: -20, high: 80, value: 20 },
    ncc: { low: -0.99, high: 0.999, value: 0.5 },
    delta: { low: 1e-30, high: 0.5, value: 1e-5 },
    fpr: { low: 1e-12, high: 0.9, value: 1e-2 },
    parameters: { low: 1, high: 1e8, whole: true, value: 26010 },
    pixels: { low: 0.05, high: 1, value: 0.9 },
  };

  const PIXEL = 32 / 255;
  const LARGEST_LIST = 15;
  const LEAST_LOG = Math.log(1e-200);
  // relative widths aimed at where steps are composed
  const TOLERANCE = 1e-3;
  const REMOTE = 1e-2;
  // relative width from which an entry does not count as answered
  const WIDE = 0.05;

  function complete(setting) {
    const out = {};
    for (const [name, field] of Object.entries(FIELDS)) {
      const given = Number(setting[name] ?? field.value);
      out[name] = Number.isFinite(given) ? Math.min(Math.max(given, field.low), field.high) : field.value;
      if (field.whole) out[name] = Math.round(out[name]);
    }
    return out;
  }

  /** The prior: a list of n equally likely candidates while n is a number people write. */
  function priorOf(setting) {
    if (setting.surprise > LARGEST_LIST) {
      const logKappa = -setting.surprise * Math.LN10;
      return { n: null, logKappa, at: `log_prior=${logKappa}` };
    }
    const n = Math.max(Math.round(10 ** setting.surprise), 2);
    return { n, logKappa: -Math.log(n), at: `prior_size=${n}` };
  }

  // --- entries --------------------------------------------------------------------------------

  const exact = (value) => ({ lower: value, upper: value });
  const ofLogs = (low, high = low) => ({
    lower: Math.exp(low), upper: Math.exp(high), logLower: low, logUpper: high,
  });
  const none = (reason) => ({ reason });

  /** Enclose log gamma at many log kappa, by closed forms where they exist. */
  function success(s, logKappas, tolerance = TOLERANCE) {
    const found = logKappas.map((k) => (k === -Infinity || k === 0 ? [k, k] : B.reroOuter(k, s.sigma, s.q, s.steps)));
    if (s.q === 1 || s.steps === 1 || 1 / s.sigma > 35) return found;
    const inside = found.map((_, i) => i).filter((i) => (
      logKappas[i] > LEAST_LOG && logKappas[i] < 0 && found[i][1] - found[i][0] > 0.1 * tolerance));
    if (inside.length) {
      const mechanism = { a: 1 / s.sigma, q: s.q, steps: s.steps };
      const [lower, upper] = A.successCurve(mechanism, inside.map((i) => Math.exp(logKappas[i])), tolerance);
      inside.forEach((i, j) => {
        const slip = 2 ** -49 * (1 + Math.abs(logKappas[i]));
        found[i][0] = Math.max(found[i][0], Math.log(lower[j]) - slip);
        found[i][1] = Math.max(found[i][0], Math.min(found[i][1], Math.log(upper[j]) + slip, 0));
      });
    }
    return found;
  }

  function epsilonOf(s, delta, tolerance = TOLERANCE) {
    if (s.q === 1) return exact(B.epsilonGaussian(Math.log(delta), s.sigma, s.steps));
    const full = B.epsilonGaussian(Math.log(delta), s.sigma, s.steps) * (1 + 1e-9);
    if (1 / s.sigma > 35) return { lower: 0, upper: full };
    const [low, high] = A.epsilon({ a: 1 / s.sigma, q: s.q, steps: s.steps }, delta, tolerance);
    return { lower: low, upper: Math.max(low, Math.min(high, full)) };
  }

  /** Share of a sphere's records within the error of one guess; its logarithm. */
  function logCap(s) {
    const sine2 = s.dimension * (s.mse / s.norm / s.norm);
    return sine2 >= 1 ? 0 : S.logCapTail(sine2, s.dimension, 0);
  }

  function logBox(s) {
    return B.logPriorSuccessBox(s.mse, s.dimension, s.range);
  }

  function logPixels(s) {
    if (s.dimension > 1e7) return null;
    return B.logBinomialTail(Math.ceil(s.pixels * s.dimension * (1 - 16e-16)), s.dimension, Math.min(2 * PIXEL, 1));
  }

  /** Whether a setting needs the composition of sub-sampled steps. */
  function composes(s) {
    return s.q < 1;
  }

  /** The entries that such a composition gives; closed forms at sampling rate one. */
  function composed(setting) {
    const s = complete(setting);
    const { n, logKappa, at } = priorOf(s);
    const found = success(s, [logKappa, Math.log(s.fpr)]).map(([low, high]) => ofLogs(low, high));
    const out = {};
    out.epsilon = epsilonOf(s, s.delta);
    out[`power[false_positive_rate=${s.fpr}]`] = found[1];
    out.membership_advantage = membershipAdvantage(s);
    out[`rero[${at}]`] = found[0];
    if (n !== null) {
      const kappa = 1 / n;
      out[`rero_advantage[${at}]`] = {
        lower: Math.max((found[0].lower - kappa) / (1 - kappa), 0),
        upper: Math.max((found[0].upper - kappa) / (1 - kappa), 0),
      };
    }
    return out;
  }

  /** Whether the browser's short lattices left an entry so wide that only the library answers. */
  function tooWide(entries) {
    return Object.values(entries).some((e) => e.upper - e.lower > Math.max(WIDE * e.upper, 1e-9));
  }

  /** The same for random records, whose prior successes are tiny and each takes its own cells. */
  function remote(setting) {
    const s = complete(setting);
    const of = (logKappa) => ofLogs(...success(s, [logKappa], REMOTE)[0]);
    const pixels = logPixels(s);
    return {
      [`sphere_success[mse=${s.mse}]`]: of(logCap(s)),
      [`box_success[mse=${s.mse}]`]: of(logBox(s)),
      [`pixel_success[pixel_share=${s.pixels}]`]: pixels === null
        ? none("the count of values is followed for up to 1e7 of them") : of(pixels),
    };
  }

  /** The largest gamma(kappa) - kappa. */
  function membershipAdvantage(s) {
    if (s.q === 1) return exact(2 * S.normalCdf(Math.sqrt(s.steps) / (2 * s.sigma)) - 1);
    if (s.steps === 1) return exact(s.q * (2 * S.normalCdf(1 / (2 * s.sigma)) - 1));
    if (1 / s.sigma > 35) return { lower: 0, upper: 1 };
    const [low, high] = A.distance({ a: 1 / s.sigma, q: s.q, steps: s.steps }, TOLERANCE);
    return { lower: low, upper: high };
  }

  /** Closed forms: everything that needs no composition. */
  function closed(setting) {
    const s = complete(setting);
    const { n, logKappa, at } = priorOf(s);
    const { sigma, q, steps, dimension, norm, range } = s;
    const out = {};
    if (n !== null) out[`bayes_success[${at}]`] = bayes(s, n);
    out[`rero_renyi[${at}]`] = ofLogs(B.reroRdp(logKappa, sigma, steps));

    out.mse_one_step = exact(B.expectedMse(sigma, norm, 1));
    out.mse = exact(B.expectedMseSampled(sigma, norm, steps, q));
    const shrunk = (k) => -Math.log(k + dimension * sigma * sigma);
    out.mse_shrunk = exact((sigma * norm) ** 2 * Math.exp(B.mixture(shrunk, steps, q, 0)));
    out.mse_single_row = norm > s.clip
      ? none("the row is clipped: the record's norm exceeds the clipping norm")
      : exact(B.expectedMseSampled(sigma, s.clip, steps, q));
    out[`mse_tail_one_step[mse=${s.mse}]`] = ofLogs(B.mseTail(s.mse, dimension, sigma, norm, 1));
    out[`mse_tail[mse=${s.mse}]`] = ofLogs(B.mseTailSampled(s.mse, dimension, sigma, norm, steps, q));
    out[`mse_tail_shrunk[mse=${s.mse}]`] = shrunkTail(s);
    out[`best_tail[mse=${s.mse}]`] = ofLogs(bestTail(s, s.mse));
    out.psnr = exact(B.expectedPsnr(dimension, sigma, norm, range, 1) + expectedGain(s));
    out[`psnr_tail[psnr=${s.psnr}]`] = ofLogs(B.psnrTailSampled(s.psnr, dimension, sigma, norm, range, steps, q));
    out.ncc = exact(Math.exp(B.mixture((k) => Math.log(B.expectedNcc(dimension, sigma, s.contrast, k)), steps, q)));
    out[`ncc_tail[ncc=${s.ncc}]`] = ofLogs(B.nccTailSampled(s.ncc, dimension, sigma, steps, q, s.contrast));

    if (n !== null) {
      for (const [name, gap] of [["fano", 2], ["fano_orthogonal", Math.SQRT2]]) {
        const information = B.mutualInformationBound(sigma, n, gap, steps);
        if (gap === 2) out[`mutual_information[${at}]`] = exact(information);
        out[`${name}[${at}]`] = ofLogs(B.fanoSuccess(information, Math.log(n)));
      }
    }
    const capacity = B.bayesCapacityGaussian(s.parameters, sigma, 1);
    out.capacity_record = exact(capacity);
    out.capacity_run = exact(steps * capacity);
    out[`capacity_success[${at}]`] = ofLogs(Math.min(logKappa + steps * capacity, 0));
    const guo = B.mseLowerBound(sigma, steps, range);
    const nats = (steps * q * s.parameters * Math.log1p(1 / (s.parameters * sigma * sigma))) / 2;
    out.information_any_network = exact(nats);
    const floor = 2 * Math.log(range) - Math.log(2 * Math.PI) - 1 - (2 * nats) / dimension;
    out.mse_any_network = { lower: Math.exp(floor), upper: null, logLower: floor, logUpper: null };
    out.mse_unbiased = { lower: Math.exp(guo), upper: null, logLower: guo, logUpper: null };
    return out;
  }

  function bayes(s, n) {
    if (n > 1e9) return none("the best attack is followed for up to 1e9 candidates");
    if (n > s.parameters) return none("there are fewer parameters than orthogonal candidates");
    if (s.q === 1) return exact(B.bayesSuccess(Math.min(Math.sqrt(s.steps) / s.sigma, 1e4), n, 0));
    if (s.steps === 1) {
      return exact((1 - s.q) / n + s.q * B.bayesSuccess(Math.min(1 / s.sigma, 1e4), n, 0));
    }
    return none("with sub-sampling this page has no formula for it; the command has");
  }

  function shrunkTail(s) {
    if (s.q < 1) return none("has a closed form without sub-sampling only");
    if ((s.dimension * s.sigma) / Math.sqrt(s.steps) > 3e7) return none("beyond the library's range");
    return ofLogs(B.mseTailShrunk(s.mse, s.dimension, s.sigma, s.norm, s.steps));
  }

  /** Every estimator from the analytic attack's observations. */
  function bestTail(s, eta) {
    const seen = B.mixture((k) => B.mseTailSphere(eta, s.dimension, s.sigma, s.norm, k), s.steps, s.q);
    if (s.q === 1 || seen >= 0) return seen;
    // who never sees the record may still guess
    const guess = s.steps * Math.log1p(-s.q) + logCap({ ...s, mse: eta });
    return Math.min(S.logAddExp(seen, guess), 0);
  }

  /** Mean of 10 log10 K, given that K >= 1. */
  function expectedGain(s) {
    if (s.q === 1) return 10 * Math.log10(s.steps);
    const seen = S.log1mexp(s.steps * Math.log1p(-s.q));
    // 1 + log10 K is at least one, so that its logarithm is a number
    const mean = Math.exp(B.mixture((k) => Math.log1p(Math.log10(k)), s.steps, s.q, 1, Infinity) - seen);
    return 10 * (mean - 1);
  }

  function evaluate(setting) {
    return { ...composed(setting), ...remote(setting), ...closed(setting) };
  }

  // --- curves ---------------------------------------------------------------------------------

  function spaced(low, high, count) {
    return Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));
  }

  /** Places of the curves over the prior (log10 kappa) and over the noise (log10 sigma). */
  function places(s) {
    const few = composes(s) && s.steps > 1;
    const width = Math.max(Math.ceil(1.25 * s.surprise), 4);
    const middle = Math.log10(s.sigma);
    return {
      priors: spaced(-width, -0.02, few ? 25 : 61),
      noises: spaced(middle - 1, middle + 1, few ? 17 : 41),
    };
  }

  const decibel = (log) => log / Math.LN10;

  /** Curves that need a composition if the run is sub-sampled. Values of probabilities: log10. */
  function composedCurves(setting) {
    const s = complete(setting);
    const { logKappa } = priorOf(s);
    const few = composes(s) && s.steps > 1;
    const { priors: x, noises } = places(s);
    const found = success(s, x.map((v) => v * Math.LN10), 1e-2);
    const prior = {
      x, lower: found.map(([l]) => decibel(l)), upper: found.map(([, h]) => decibel(h)),
    };
    // closer where the curve is steep
    const rates = spaced(0.03, 0.995, few ? 25 : 80).map((t) => t * t);
    const roc = success(s, rates.map((v) => Math.log(v)), 1e-2);
    const tradeoff = {
      x: [0, ...rates, 1],
      lower: [0, ...roc.map(([l]) => Math.exp(l)), 1],
      upper: [roc.length ? Math.exp(roc[0][1]) : 0, ...roc.map(([, h]) => Math.exp(h)), 1],
    };
    tradeoff.upper[0] = 0;
    const over = noises.map((v) => success({ ...s, sigma: 10 ** v }, [logKappa], 1e-2)[0]);
    const noise = {
      x: noises, lower: over.map(([l]) => decibel(l)), upper: over.map(([, h]) => decibel(h)),
    };
    const deltas = spaced(-12, -1, few ? 7 : 34);
    const eps = deltas.map((v) => epsilonOf(s, 10 ** v, 1e-2));
    const profile = { x: deltas, lower: eps.map((e) => e.lower), upper: eps.map((e) => e.upper) };
    return { prior, tradeoff, noise, profile };
  }

  /** Closed-form curves; values of probabilities are log10. */
  function closedCurves(setting) {
    const s = complete(setting);
    const { sigma, q, steps, dimension, norm, range } = s;
    const { n, logKappa } = priorOf(s);
    const many = q < 1 && steps * q * (1 - q) > 100;
    const count = many ? 25 : 49;
    const out = {};

    const { priors, noises } = places(s);
    out.prior = {
      x: priors,
      renyi: priors.map((v) => decibel(B.reroRdp(v * Math.LN10, sigma, steps))),
      blind: priors,
      attack: priors.map((v) => {
        if (v < -9 || v > -Math.log10(2)) return NaN;
        const found = bayes({ ...s, parameters: 1e9 }, Math.max(Math.round(10 ** -v), 2));
        return found.reason ? NaN : Math.log10(found.lower);
      }),
      fano: priors.map((v) => {
        if (v < -LARGEST_LIST || v > -Math.log10(2)) return NaN;
        const information = B.mutualInformationBound(sigma, 10 ** -v, 2, steps);
        return decibel(B.fanoSuccess(information, -v * Math.LN10));
      }),
    };

    out.noise = {
      x: noises,
      renyi: noises.map((v) => decibel(B.reroRdp(logKappa, 10 ** v, steps))),
      attack: noises.map((v) => {
        if (n === null || n > 1e9) return NaN;
        const found = bayes({ ...s, sigma: 10 ** v, parameters: 1e9 }, n);
        return found.reason ? NaN : Math.log10(found.lower);
      }),
    };

    const middle = Math.log10(B.expectedMseSampled(sigma, norm, steps, q));
    const least = Math.log10((norm * norm) / dimension);
    const errors = spaced(Math.min(middle, least) - 1.5, Math.max(middle, least) + 0.75, count);
    const tenth = (v) => Math.max(decibel(v), -320);
    out.mse = {
      x: errors,
      analytic: errors.map((v) => tenth(B.mseTailSampled(10 ** v, dimension, sigma, norm, steps, q))),
      best: errors.map((v) => tenth(bestTail(s, 10 ** v))),
      shrunk: errors.map((v) => {
        const found = shrunkTail({ ...s, mse: 10 ** v });
        return found.reason ? NaN : tenth(found.logUpper);
      }),
    };

    const db = B.expectedPsnr(dimension, sigma, norm, range, 1) + expectedGain(s);
    const ratios = spaced(db - 12, db + 12, count);
    out.psnr = {
      x: ratios,
      analytic: ratios.map((v) => tenth(B.psnrTailSampled(v, dimension, sigma, norm, range, steps, q))),
      best: ratios.map((v) => tenth(bestTail(s, B.mseOfPsnr(v, range)))),
    };

    const cosines = spaced(-0.3, 0.995, count);
    out.ncc = {
      x: cosines,
      own: cosines.map((v) => tenth(B.nccTailSampled(v, dimension, sigma, steps, q, s.contrast))),
    };

    out.error = {
      x: noises,
      analytic: noises.map((v) => Math.log10(B.expectedMseSampled(10 ** v, norm, steps, q))),
      shrunk: noises.map((v) => 2 * (v + Math.log10(norm))
        + decibel(B.mixture((k) => -Math.log(k + dimension * 10 ** (2 * v)), steps, q, 0))),
      row: noises.map((v) => Math.log10(B.expectedMseSampled(10 ** v, s.clip, steps, q))),
      unbiased: noises.map((v) => decibel(B.mseLowerBound(10 ** v, steps, range))),
    };

    out.capacity = {
      x: noises,
      record: noises.map((v) => Math.log10(B.bayesCapacityGaussian(s.parameters, 10 ** v, 1) / Math.LN10)),
    };
    return out;
  }

  return {
    FIELDS, closed, closedCurves, complete, composed, composedCurves, composes, evaluate, priorOf,
    remote, tooWide,
  };
}
