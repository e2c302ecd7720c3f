/* Closed forms of reconrisk.bounds and reconrisk.privacy that the explorer shows.
 *
 * The names are those of the Python functions, in camel case; their docstrings state formula, source
 * and range. Everything that can underflow is a natural logarithm. tests/book/test_explorer.py
 * compares each with the library in a browser, on random settings.
 */
"use strict";

function reconriskBounds(special) {
  const S = special;
  const HALF_LOG_2PI = 0.5 * Math.log(2 * Math.PI);

  // --- any attack, against a prior ------------------------------------------------------------

  /** log gamma of full-batch DP-SGD. */
  function reroGaussian(logKappa, sigma, steps) {
    return S.logNormalCdfShifted(logKappa, Math.sqrt(steps) / sigma);
  }

  /** log gamma of one step at sampling rate q. */
  function reroOneStep(logKappa, sigma, q) {
    if (q === 1) return reroGaussian(logKappa, sigma, 1);
    return S.logAddExp(Math.log1p(-q) + logKappa, Math.log(q) + reroGaussian(logKappa, sigma, 1));
  }

  /** [lower, upper] of log gamma without composing: one step, no sampling, taking part at all. */
  function reroOuter(logKappa, sigma, q, steps) {
    const full = reroGaussian(logKappa, sigma, steps);
    if (q === 1) return [full, full];
    const one = reroOneStep(logKappa, sigma, q);
    if (steps === 1) return [one, one];
    const never = steps * Math.log1p(-q);
    const some = S.logAddExp(never + logKappa, Math.log(-Math.expm1(never)));
    return [one, Math.max(one, Math.min(full, some))];
  }

  /** log of the success that Renyi privacy at the best order allows, full batch. */
  function reroRdp(logKappa, sigma, steps) {
    const root = Math.sqrt(0.5 * steps) / sigma;
    return -(Math.max(Math.sqrt(-logKappa) - root, 0) ** 2);
  }

  /** Success of the best attack on n equally likely candidates with equal angles, full batch. */
  function bayesSuccess(signal, n, cosine) {
    const shift = signal * Math.sqrt(1 - cosine);
    const others = n - 1;
    const slope = (x) => others * Math.exp(-0.5 * x * x - HALF_LOG_2PI - S.logNormalCdf(x)) - (x - shift);
    const peak = S.bisect(slope, shift - 1e-9, shift + 10, 1e-7);
    const logP = S.logIntegral((t) => {
      const x = peak + t;
      return -0.5 * (x - shift) ** 2 - HALF_LOG_2PI + others * S.logNormalCdf(x);
    }, 0.04);
    return Math.min(Math.max(Math.exp(Math.min(logP, 0)), 1 / n), 1);
  }

  // --- information ----------------------------------------------------------------------------

  /** Nats; n equally likely candidates whose gradients differ by at most `sensitivity`. */
  function mutualInformationBound(sigma, n, sensitivity, steps) {
    const gap = 0.5 * steps * (sensitivity / sigma) ** 2;
    if (gap < 0.5) return -Math.log1p((1 - 1 / n) * Math.expm1(-gap));
    return Math.log(n) - Math.log1p((n - 1) * Math.exp(-gap));
  }

  /** log of the largest success that Fano's inequality allows. */
  function fanoSuccess(information, logN) {
    const p = Math.exp(-logN);
    let excess = 0;
    if (information >= logN) excess = 1;
    else if (information > 0) {
      const gap = (logA) => divergenceFromUniform(Math.exp(logA), logN, p) - information;
      excess = Math.exp(S.bisect(gap, -740, 0));
    }
    const logS = p > 1e-290 ? Math.log(p + excess * (1 - p)) : Math.log(excess);
    return Math.min(Math.max(logS, -logN), 0);
  }

  function divergenceFromUniform(excess, logN, p) {
    const gain = excess * (1 - p);
    const ratio = p > 0 ? gain / p : Infinity;
    const s = p + gain;
    const first = ratio < 1
      ? p * (ratio * ratio - (1 + ratio) * S.divergence(ratio))
      : s * (Math.log(s) + logN) - gain;
    const mu = Math.max(-excess, -1 + 1e-16);
    const term = excess >= 1 ? 1 : mu * mu - (1 + mu) * S.divergence(mu);
    return first + (1 - p) * term;
  }

  /** Log of Bayes' capacity of Gaussian noise on a ball of gradients.
   *
   * Python adds all the terms; they are log-concave in j (intrinsic volumes of a ball), so here
   * they are added outwards from the largest until a geometric series bounds the rest.
   */
  function bayesCapacityGaussian(p, noiseStd, radius) {
    if (radius === 0) return 0;
    const logRho = Math.log(radius) - Math.log(noiseStd) - 0.5 * Math.LN2;
    const top = p * logRho - S.logGamma(0.5 * p + 1);
    if (p === 1) return S.logAddExp(0, top);
    const half = S.logGamma(0.5 * p);
    const whole = S.logGamma(p);
    const term = (j) => whole - S.logGamma(j + 1) - S.logGamma(p - j)
      + j * logRho + S.logGamma(0.5 * (p - j)) - half;
    const peak = peakOf(term, 1, p - 1);
    return S.logAddExp(0, S.logAddExp(top, sumOutwards(term, peak, 1, p - 1)));
  }

  // --- the law of the analytic attack ---------------------------------------------------------

  /** s, the standard deviation of an entry of the average of `repeats` reconstructions. */
  function noiseStd(sigma, norm, repeats) {
    return (sigma / Math.sqrt(repeats)) * norm;
  }

  function expectedMse(sigma, norm, repeats) {
    return noiseStd(sigma, norm, repeats) ** 2;
  }

  function mseTail(eta, n, sigma, norm, repeats) {
    const s = noiseStd(sigma, norm, repeats);
    return S.logGammaLower(0.5 * n, 0.5 * n * (eta / s / s));
  }

  function mseOfPsnr(psnr, range) {
    return range ** 2 * 10 ** (-psnr / 10);
  }

  function psnrTail(psnr, n, sigma, norm, range, repeats) {
    return mseTail(mseOfPsnr(psnr, range), n, sigma, norm, repeats);
  }

  function expectedPsnr(n, sigma, norm, range, repeats) {
    const s = noiseStd(sigma, norm, repeats);
    return (10 / Math.LN10) * (2 * Math.log(range / s) + S.logMinusDigamma(0.5 * n));
  }

  function nccTail(threshold, n, sigma, repeats, contrast) {
    return S.logCosineTail(threshold, n - 1, (contrast * Math.sqrt(repeats)) / sigma);
  }

  function expectedNcc(n, sigma, contrast, repeats) {
    const k = (contrast * Math.sqrt(repeats)) / sigma;
    const log = S.logIntegral(
      (u) => -0.5 * k * k * Math.tanh(u) ** 2 - 0.5 * n * Math.log1p(Math.sinh(u) ** 2),
      0.7 / Math.sqrt(k * k + n + 25),
    );
    return Math.min((k * Math.exp(log)) / Math.sqrt(2 * Math.PI), 1);
  }

  // --- better estimators and any estimator ----------------------------------------------------

  function shrinkageFactor(n, sigma, repeats) {
    return 1 / (1 + (n * sigma * sigma) / repeats);
  }

  function expectedMseShrunk(n, sigma, norm, repeats) {
    return shrinkageFactor(n, sigma, repeats) * expectedMse(sigma, norm, repeats);
  }

  function mseTailShrunk(eta, n, sigma, norm, repeats) {
    const noise = sigma / Math.sqrt(repeats);
    const std = (noise / (1 + n * noise * noise)) * norm;
    return S.logChi2Tails(n * (eta / std / std), n, (n * noise) ** 2)[0];
  }

  /** log of the largest probability, for any estimator, on records spread over the sphere. */
  function mseTailSphere(eta, n, sigma, norm, repeats) {
    const sine2 = n * (eta / norm / norm);
    return sine2 >= 1 ? 0 : S.logCapTail(sine2, n, Math.sqrt(repeats) / sigma);
  }

  /** log of the success of any attack, through any network, on a record uniform on a sphere. */
  function reroSphere(eta, n, sigma, norm, steps) {
    const sine2 = n * (eta / norm / norm);
    return sine2 >= 1 ? 0 : reroGaussian(S.logCapTail(sine2, n, 0), sigma, steps);
  }

  /** log of a bound on a constant guess's success, records uniform in a box. */
  function logPriorSuccessBox(eta, n, width) {
    const share = 4 * (eta / width / width);
    if (share >= 1 / 3) return 0;
    const ball = 0.5 * n * Math.log((Math.PI * n * share) / 4) - S.logGamma(0.5 * n + 1);
    // any tilt gives a valid bound; the one at which the mean square is `share` gives the best
    const mean = (v) => 0.5 / (v * v) - Math.exp(-v * v) / (Math.sqrt(Math.PI) * v * erf(v));
    const v = S.bisect((t) => share - mean(t), 1e-4, 1 / Math.sqrt(2 * share));
    const chernoff = n * (v * v * share + Math.log(((Math.sqrt(Math.PI) / 2) * erf(v)) / v));
    const slack = 1e-14 * n * (1 + Math.abs(Math.log(share)) + Math.abs(Math.log(n)));
    return Math.min(Math.min(ball, chernoff) + slack, 0);
  }

  /** The error function of a positive number. */
  function erf(x) {
    return x < 0.3 ? -Math.expm1(S.logChi2Tails(2 * x * x, 1, 0)[1]) : 1 - Math.exp(-x * x) * S.erfcx(x);
  }

  /** log P(Bin(n, p) >= k), from the side of the tail that is smaller. */
  function logBinomialTail(k, n, p) {
    if (k <= 0 || p >= 1) return 0;
    const term = (j) => S.logBinomialPmf(j, n, p);
    if (k > n * p) return Math.min(sumOutwards(term, k, k, n), 0);
    return S.log1mexp(Math.min(sumOutwards(term, k - 1, 0, k - 1), 0));
  }

  /** log of the least mean squared error of an unbiased attack, full batch (Guo et al.). */
  function mseLowerBound(sigma, steps, diameter) {
    const d = steps / (sigma * sigma);
    return 2 * Math.log(diameter) - Math.log(4) - (d + S.log1mexp(-d));
  }

  // --- Poisson samples: the number of steps that select the record is binomial ----------------

  function peakOf(term, low, high) {
    while (low < high) {
      const middle = Math.floor(0.5 * (low + high));
      const here = term(middle);
      if (term(middle + 1) > here || here === -Infinity) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function sumOutwards(term, peak, low, high) {
    const top = term(peak);
    if (top === -Infinity) return top;
    let total = 1;
    for (const direction of [1, -1]) {
      let before = 0;
      for (let k = peak + direction; k >= low && k <= high; k += direction) {
        const value = term(k) - top;
        total += Math.exp(value);
        const ratio = Math.exp(Math.min(value - before, -1e-12));
        if (value + Math.log(ratio / (1 - ratio)) < Math.log(total) - 39) break;
        before = value;
      }
    }
    return top + Math.log(total);
  }

  /** How far a sum's terms reach before they have fallen to half their size. */
  function halfWidth(term, peak, high) {
    const half = term(peak) - Math.LN2;
    let reach = 1;
    while (peak + reach <= high && term(peak + reach) > half) reach *= 2;
    return reach;
  }

  /** log of the sum over k in [least, T] of P(K = k) exp(logTail(k)).
   *
   * Where the terms change slowly every stride-th stands for its neighbours: the trapezoidal rule,
   * whose error for a bell that is several strides wide is below the last bit.
   */
  function mixture(logTail, steps, q, least = 1, most = 0) {
    if (q === 1) return logTail(steps);
    const term = (k) => S.logBinomialPmf(k, steps, q) + logTail(k);
    const peak = peakOf(term, least, steps);
    const reach = halfWidth(term, peak, steps);
    const stride = reach >= 16 ? reach >> 3 : 1;
    const first = peak - stride * Math.floor((peak - least) / stride);
    const last = Math.floor((steps - first) / stride);
    const sum = sumOutwards((j) => term(first + stride * j), (peak - first) / stride, 0, last);
    return Math.min(sum + Math.log(stride), most);
  }

  function mseTailSampled(eta, n, sigma, norm, steps, q) {
    return mixture((k) => mseTail(eta, n, sigma, norm, k), steps, q);
  }

  function psnrTailSampled(psnr, n, sigma, norm, range, steps, q) {
    return mseTailSampled(mseOfPsnr(psnr, range), n, sigma, norm, steps, q);
  }

  function nccTailSampled(threshold, n, sigma, steps, q, contrast) {
    return mixture((k) => nccTail(threshold, n, sigma, k, contrast), steps, q);
  }

  /** s^2 E[1/K | K >= 1]. */
  function expectedMseSampled(sigma, norm, steps, q) {
    const once = expectedMse(sigma, norm, 1);
    if (q === 1) return once / steps;
    const seen = S.log1mexp(steps * Math.log1p(-q));
    return once * Math.exp(mixture((k) => -Math.log(k), steps, q) - seen);
  }

  // --- membership, full batch -----------------------------------------------------------------

  /** log delta(epsilon) of a Gaussian mechanism with this shift. */
  function logDeltaOfShift(epsilon, shift) {
    const a = 0.5 * shift - epsilon / shift;
    const b = a - shift;
    if (a > 1) {
      return S.log1mexp(Math.min(S.logAddExp(S.logNormalCdf(-a), epsilon + S.logNormalCdf(b)), 0));
    }
    const gain = shift < 1 ? gaussLegendre(millsSlope, b, a) : mills(a) - mills(b);
    return -0.5 * a * a - HALF_LOG_2PI + Math.log(gain);
  }

  /** Phi(x)/phi(x), and its slope 1 + x Phi(x)/phi(x). */
  function mills(x) {
    return Math.sqrt(Math.PI / 2) * S.erfcx(-x * Math.SQRT1_2);
  }

  function millsSlope(x) {
    if (x >= -20) return 1 + x * mills(x);
    const y = 1 / (x * x);
    return y * (1 - y * (3 - y * (15 - y * (105 - y * (945 - y * 10395)))));
  }

  // Five nodes on each of eight pieces: the integrand is smooth on the scale of one.
  const NODES = [0, Math.sqrt(5 - 2 * Math.sqrt(10 / 7)) / 3, Math.sqrt(5 + 2 * Math.sqrt(10 / 7)) / 3];
  const WEIGHTS = [128 / 225, (322 + 13 * Math.sqrt(70)) / 900, (322 - 13 * Math.sqrt(70)) / 900];

  function gaussLegendre(f, low, high) {
    const half = (high - low) / 16;
    let total = 0;
    for (let piece = 0; piece < 8; piece += 1) {
      const middle = low + (2 * piece + 1) * half;
      total += WEIGHTS[0] * f(middle);
      for (const j of [1, 2]) total += WEIGHTS[j] * (f(middle - half * NODES[j]) + f(middle + half * NODES[j]));
    }
    return total * half;
  }

  /** The smallest epsilon >= 0 with delta(epsilon) <= delta, full batch. */
  function epsilonGaussian(logDelta, sigma, steps) {
    const shift = Math.sqrt(steps) / sigma;
    const holds = (e) => logDeltaOfShift(e, shift) - logDelta;
    if (holds(0) <= 0) return 0;
    let high = 1;
    while (holds(high) > 0) high *= 2;
    return S.bisect(holds, 0.5 * high === 0.5 ? 0 : 0.5 * high, high, 1e-15);
  }

  return {
    bayesCapacityGaussian, bayesSuccess, epsilonGaussian, expectedMse, expectedMseSampled,
    expectedMseShrunk, expectedNcc, expectedPsnr, fanoSuccess, logBinomialTail, logDeltaOfShift,
    logPriorSuccessBox, mixture,
    mseLowerBound, mseOfPsnr, mseTail, mseTailSampled, mseTailShrunk, mseTailSphere,
    mutualInformationBound, nccTail, nccTailSampled, psnrTail, psnrTailSampled, reroGaussian,
    reroOneStep, reroOuter, reroRdp, reroSphere, shrinkageFactor,
  };
}
