/* Special functions in logarithms: the part of reconrisk.special that the explorer needs.
 *
 * Scalars in, scalars out; probabilities are natural logarithms. Each function follows the Python
 * one of the same name, in whose docstring its method and its source are explained; where it takes
 * another way, it says so. tests/book/test_explorer.py compares the two in a browser.
 *
 * Written as one function, so that its source can be handed to a worker on a page that was opened
 * from a file.
 */
"use strict";

function reconriskSpecial() {
  const ROOT_HALF = Math.SQRT1_2;
  const HALF_LOG_2PI = 0.5 * Math.log(2 * Math.PI);

  // --- the normal law -------------------------------------------------------------------------

  // Chebyshev series of (1 + 2 x) erfcx(x) in (x - 4)/(x + 4), from 40 digits at 80 nodes.
  const ERFCX = [
    2.3549664010748974, -0.007260796620301901, -0.081265123236185, 0.06009212804122225,
    -0.02875393558027666, 0.01059566336347286, -0.003136927294554264, 0.0007456494372536184,
    -0.0001369696503010054, 1.7183861600300937e-05, -7.158364623450346e-07, -2.4261399442449534e-07,
    5.5765709395703566e-08, -2.1057869513809494e-09, -1.1717889351884957e-09, 1.9098355172456688e-10,
    1.408871764208813e-11, -6.901108320480815e-12, 9.167958364111294e-14, 2.1454508286554553e-13,
    -1.4716575027010623e-14, -6.668675118770408e-15, 7.504598509880083e-16, 2.22009300666632e-16,
    -3.1704898956330886e-17, -8.193570309884333e-18, 1.2459819733129574e-18, 3.3664022738726354e-19,
  ];

  /** exp(x^2) erfc(x). */
  function erfcx(x) {
    if (x < 0) return x < -26.6 ? Infinity : 2 * Math.exp(x * x) - erfcx(-x);
    if (x === Infinity) return 0;
    const t = (2 * (x - 4)) / (x + 4);
    let next = 0;
    let value = 0;
    for (let j = ERFCX.length - 1; j > 0; j -= 1) {
      const before = value;
      value = t * value - next + ERFCX[j];
      next = before;
    }
    return (0.5 * t * value - next + 0.5 * ERFCX[0]) / (1 + 2 * x);
  }

  /** log Phi(x). */
  function logNormalCdf(x) {
    if (x === -Infinity) return -Infinity;
    if (x < 0) return -0.5 * x * x + Math.log(0.5 * erfcx(-x * ROOT_HALF));
    return Math.log1p(-0.5 * Math.exp(-0.5 * x * x) * erfcx(x * ROOT_HALF));
  }

  function normalCdf(x) {
    if (x < 0) return 0.5 * Math.exp(-0.5 * x * x) * erfcx(-x * ROOT_HALF);
    return 1 - 0.5 * Math.exp(-0.5 * x * x) * erfcx(x * ROOT_HALF);
  }

  /** log(1 - exp(x)) for x <= 0. */
  function log1mexp(x) {
    if (x >= 0) return -Infinity;
    return x > -Math.LN2 ? Math.log(-Math.expm1(x)) : Math.log1p(-Math.exp(x));
  }

  function logAddExp(a, b) {
    const top = Math.max(a, b);
    return top === -Infinity ? top : top + Math.log1p(Math.exp(Math.min(a, b) - top));
  }

  /** The x at which log Phi(x) = logP: Newton's method on a concave function. */
  function logNormalQuantile(logP) {
    if (logP === -Infinity || logP === 0) return logP === 0 ? Infinity : -Infinity;
    if (logP > -Math.LN2) return -logNormalQuantile(log1mexp(logP));
    let x = -Math.sqrt(Math.max(-2 * (logP + Math.LN2), 0));
    for (let i = 0; i < 60; i += 1) {
      // phi/Phi, the slope of log Phi
      const slope = Math.sqrt(2 / Math.PI) / erfcx(-x * ROOT_HALF);
      const move = (logNormalCdf(x) - logP) / slope;
      x -= move;
      if (Math.abs(move) <= 2e-16 * Math.abs(x) + 1e-300) break;
    }
    return x;
  }

  /** log Phi(Phi^-1(p) + shift) from log p. */
  function logNormalCdfShifted(logP, shift) {
    if (logP === -Infinity || logP === 0) return logP;
    const z = logNormalQuantile(logP);
    if (z < -5 && z + shift < 0) {
      const ratio = erfcx(-(z + shift) * ROOT_HALF) / erfcx(-z * ROOT_HALF);
      return logP + Math.max(-shift * (z + 0.5 * shift) + Math.log(ratio), 0);
    }
    return Math.max(logNormalCdf(z + shift), logP);
  }

  // --- what is left of the gamma function -----------------------------------------------------

  const STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156,
    -3617 / 122400, 43867 / 244188];

  /** log Gamma(z) - [(z - 1/2) log z - z + log(2 pi)/2], for z > 0. */
  function logStirlingRemainder(z) {
    if (z < 8) return logGamma(z) - ((z - 0.5) * Math.log(z) - z + HALF_LOG_2PI);
    const w = 1 / (z * z);
    let series = 0;
    for (let j = STIRLING.length - 1; j >= 0; j -= 1) series = series * w + STIRLING[j];
    return series / z;
  }

  /** By Stirling's series, at small arguments after going up by whole steps. */
  function logGamma(z) {
    let product = 1;
    let y = z;
    while (y < 10) {
      product *= y;
      y += 1;
    }
    return (y - 0.5) * Math.log(y) - y + HALF_LOG_2PI + logStirlingRemainder(y) - Math.log(product);
  }

  /** log(a) - digamma(a). */
  function logMinusDigamma(a) {
    let y = a;
    let sum = 0;
    while (y < 12) {
      sum += 1 / y;
      y += 1;
    }
    const w = 1 / (y * y);
    const series = 1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132 - w * (691 / 32760 - w / 12)))));
    return 0.5 / y + w * series + sum - Math.log1p((y - a) / a);
  }

  /** mu - log(1 + mu), relatively exact near 0. */
  function divergence(mu) {
    if (Math.abs(mu) >= 0.4) return mu - Math.log1p(mu);
    const r = mu / (2 + mu);
    const w = r * r;
    let series = 0;
    for (let j = 14; j >= 0; j -= 1) series = series * w + 2 / (2 * j + 3);
    return r * (mu - w * series);
  }

  /** exp(x) - 1 - x, relatively exact near 0. */
  function expRemainder(x) {
    if (Math.abs(x) >= 0.5) return Math.expm1(x) - x;
    let term = 0.5 * x * x;
    let total = 0;
    for (let j = 3; j < 20; j += 1) {
      total += term;
      term *= x / j;
    }
    return total;
  }

  /** log(x^a exp(-x)/Gamma(a + 1)). */
  function logPoissonPeak(a, x) {
    const bulk = x < 1e-3 * a
      ? a * (Math.log(x) - Math.log(a)) - (x - a)
      : -a * divergence((x - a) / a);
    return bulk - (HALF_LOG_2PI + 0.5 * Math.log(a)) - logStirlingRemainder(a);
  }

  /** log P(K = k), K ~ Binomial(n, p). */
  function logBinomialPmf(k, n, p) {
    if (k === 0) return n * Math.log1p(-p);
    if (k === n) return n * Math.log(p);
    const value = logPoissonPeak(k, n * p) + logPoissonPeak(n - k, n * (1 - p)) - logPoissonPeak(n, n);
    return Math.min(value, 0);
  }

  // --- quadrature and roots -------------------------------------------------------------------

  /** Log of the integral of exp(f(t)), f unimodal with its peak within a few steps of 0. */
  function logIntegral(f, step) {
    const centre = f(0);
    let total = 1;
    for (const direction of [1, -1]) {
      let top = 0;
      for (let j = 1; j < 24000; j += 1) {
        const value = f(direction * step * j) - centre;
        total += Math.exp(value);
        top = Math.max(top, value);
        if (j % 6 === 0 && value <= top - 34) break;
      }
    }
    return centre + Math.log(total * step);
  }

  /** Where a monotone function changes sign between low and high, to the last bit. */
  function bisect(f, low, high, relative = 4e-16) {
    const rising = f(high) > f(low);
    for (let i = 0; i < 200 && Math.abs(high - low) > relative * Math.max(Math.abs(low), Math.abs(high)); i += 1) {
      const middle = 0.5 * (low + high);
      if (middle === low || middle === high) break;
      if (f(middle) > 0 === rising) high = middle;
      else low = middle;
    }
    return 0.5 * (low + high);
  }

  // --- chi-square -----------------------------------------------------------------------------

  /** Both log-tails of the non-central chi-square law, [log P(Y <= x), log P(Y > x)].
   *
   * At noncentrality 0 these are the regularised incomplete gamma functions of n/2 and x/2, for
   * which Python has Temme's expansion: one contour integral serves for both here.
   */
  function logChi2Tails(x, n, lam) {
    if (x === 0) return [-Infinity, 0];
    if (x === Infinity) return [0, -Infinity];
    const root = Math.hypot(n, 2 * Math.sqrt(lam) * Math.sqrt(x));
    const scale = (n + root) / (2 * x);
    const wide = 2 * x - n;
    const saddle = wide > 0 ? (x - n - lam) / (wide + root) : 0.5 * (1 - scale);
    const sigma = -saddle / scale;
    const kl = scale > 2 ? Math.log(scale) + 1 / scale - 1 : divergence(-2 * sigma);
    const exponent = -0.5 * n * kl - 2 * lam * sigma * sigma;
    const pull = lam / scale;
    const curvature = 2 * n + 4 * pull;
    const bend = ((2 / 3) * (n + 3 * pull)) / (n + 2 * pull);
    const step = 0.6 / Math.sqrt(curvature + 36);
    const total = (descent(step, sigma, bend, 0.5 * n, 0.5 * pull) * step) / Math.PI;
    const below = sigma >= 0;
    const disc = 1 - 4 * bend * sigma;
    const height = (2 * sigma) / (1 + Math.sqrt(Math.max(disc, 0)));
    let pole = 0;
    if (disc > 0 && Math.abs(height) * Math.sqrt(curvature + 36) < 10) {
      const turn = (Math.abs(height) / step) * 2 * Math.PI;
      pole = Math.exp(-exponent - turn) / (1 + Math.exp(-turn));
    }
    const small = Math.min(exponent + Math.log((below ? total : -total) + pole), 0);
    return below ? [small, log1mexp(small)] : [log1mexp(small), small];
  }

  function descent(step, sigma, bend, halfN, halfPull) {
    let total = 0;
    for (let j = 0; j < 4096; j += 1) {
      const t = step * (j + 0.5);
      // eps = 2 i t + 2 b t^2 and 1 - eps
      const er = 2 * bend * t * t;
      const ei = 2 * t;
      const rr = 1 - er;
      const ri = -ei;
      const size = rr * rr + ri * ri;
      // eps^2/(1 - eps)
      const sr = er * er - ei * ei;
      const si = 2 * er * ei;
      const qr = (sr * rr + si * ri) / size;
      const qi = (si * rr - sr * ri) / size;
      // log(1 - eps) + eps; its real part needs care where eps is small
      let lr;
      let li;
      const length = er * er + ei * ei;
      if (length < 0.04) [lr, li] = logRest(er, ei);
      else {
        lr = 0.5 * Math.log(size) + er;
        li = Math.atan2(ri, rr) + ei;
      }
      const xr = halfPull * qr - halfN * lr;
      const xi = halfPull * qi - halfN * li;
      if (xr < -38 && j % 8 === 7) break;
      const m = Math.exp(xr);
      const cr = m * Math.cos(xi);
      const ci = m * Math.sin(xi);
      // times (1 - 2 i b t)/(sigma - i t - b t^2)
      const nr = cr + 2 * bend * t * ci;
      const ni = ci - 2 * bend * t * cr;
      const dr = sigma - bend * t * t;
      total += (nr * dr - ni * t) / (dr * dr + t * t);
    }
    return total;
  }

  /** log(1 - eps) + eps for small eps, by -2 artanh(r) with r = eps/(2 - eps). */
  function logRest(er, ei) {
    const dr = 2 - er;
    const size = dr * dr + ei * ei;
    const r = (er * dr - ei * ei) / size;
    const i = (ei * dr + er * ei) / size;
    const wr = r * r - i * i;
    const wi = 2 * r * i;
    let sr = 1 / 25;
    let si = 0;
    for (let odd = 23; odd > 1; odd -= 2) {
      const keep = sr * wr - si * wi + 1 / odd;
      si = sr * wi + si * wr;
      sr = keep;
    }
    // eps + 2 w series, times -r
    const ar = er + 2 * (wr * sr - wi * si);
    const ai = ei + 2 * (wr * si + wi * sr);
    return [-(r * ar - i * ai), -(r * ai + i * ar)];
  }

  /** log P(a, x), the regularised lower incomplete gamma function; a >= 1/2. */
  function logGammaLower(a, x) {
    return logChi2Tails(2 * x, 2 * a, 0)[0];
  }

  function logGammaUpper(a, x) {
    return logChi2Tails(2 * x, 2 * a, 0)[1];
  }

  // --- the cosine of an angle -----------------------------------------------------------------

  /** log P(cos angle(Z, e) >= cosine), Z ~ N(delta e, I_d). */
  function logCosineTail(cosine, d, delta) {
    return cosineTail(cosine / Math.sqrt((1 - cosine) * (1 + cosine)), d, delta);
  }

  /** The same at cosine = sqrt(1 - sineSquared). */
  function logCapTail(sineSquared, d, delta) {
    return cosineTail(Math.sqrt((1 - sineSquared) / sineSquared), d, delta);
  }

  function cosineTail(tau, d, delta) {
    if (tau === -Infinity) return 0;
    if (d === 1 || tau === 0) return logNormalCdf(delta);
    if (tau === Infinity) return -Infinity;
    const k = d - 1;
    const root = Math.sqrt(k);
    if (Math.abs(tau) <= (d <= 30 ? 6 : 1.6)) {
      const small = delta < tau * root;
      const sign = small ? -1 : 1;
      const value = Math.min(chiNormal(sign * tau, -sign * delta, k), 0);
      return small ? value : log1mexp(value);
    }
    const tail = tau > 0;
    const t = Math.abs(tau);
    const m = tail ? delta : -delta;
    const small = m < t * root;
    const value = Math.min(along(t, k, m, small), 0);
    return small === tail ? value : log1mexp(value);
  }

  /** log E Phi(alpha R + beta), R ~ chi_k, where it is at most about one half. */
  function chiNormal(alpha, beta, k) {
    const root = Math.sqrt(k);
    const one = 1 + alpha * alpha;
    const product = alpha * beta;
    const rest = Math.sqrt(product * product + 4 * k * one);
    const far = product <= 0 ? (rest - product) / (2 * one) : (2 * k) / (rest + product);
    const r0 = alpha > 0 ? Math.max(root, far) : Math.min(root, far);
    const v0 = Math.log(r0 / root);
    const step = 0.74 / Math.sqrt(r0 * r0 * one + k + 24);
    const slope = alpha * root * Math.exp(v0);
    const start = slope + beta;
    const constant = 0.5 * (Math.log(k) - Math.log(Math.PI)) - logStirlingRemainder(0.5 * k);
    return constant + logIntegral(
      (t) => logNormalCdf(start + slope * Math.expm1(t)) - 0.5 * k * expRemainder(2 * (v0 + t)),
      step,
    );
  }

  /** Integrate over z = Z_1 > 0: phi(z - delta) times the law of R at z/tau. */
  function along(tau, k, delta, lower) {
    const inverse = 1 / (tau * tau);
    let root = Math.sqrt(delta * delta + 4);
    const bulk = delta > 0 ? 0.5 * (delta + root) : 2 / (root - delta);
    const lead = 1 + inverse;
    root = Math.sqrt(delta * delta + 4 * (k + 1) * lead);
    const deep = delta > 0 ? (delta + root) / (2 * lead) : (2 * (k + 1)) / (root - delta);
    const z0 = lower ? Math.max(bulk, deep) : Math.min(bulk, deep);
    const step = 0.74 / Math.sqrt(z0 * z0 * lead + k + 25);
    const value = Math.log(z0) - HALF_LOG_2PI + logIntegral((t) => {
      const ratio = Math.expm1(t);
      const distance = z0 - delta + z0 * ratio;
      const z = z0 + z0 * ratio;
      return t - 0.5 * distance * distance + logChi2Tails(z * z * inverse, k, 0)[lower ? 0 : 1];
    }, step);
    return lower ? value : logAddExp(value, logNormalCdf(-delta));
  }

  return {
    bisect, divergence, erfcx, expRemainder, log1mexp, logAddExp, logBinomialPmf, logCapTail,
    logChi2Tails, logCosineTail, logGamma, logGammaLower, logGammaUpper, logIntegral,
    logMinusDigamma, logNormalCdf, logNormalCdfShifted, logNormalQuantile, logPoissonPeak,
    logStirlingRemainder, normalCdf,
  };
}
