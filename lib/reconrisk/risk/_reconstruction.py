"""Reconstruction without candidates: every attack on a random record, and the analytic attack."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from reconrisk import arguments, bounds, special
from reconrisk.bounds._selections import selection_log_enclosure, selection_mean
from reconrisk.risk._composed import success_at
from reconrisk.risk._entries import Interval, Source
from reconrisk.risk._kinds import ANY_NETWORK, POISSON, Kind, Method, Point, Setting
from reconrisk.risk._membership import INFORMED

__all__ = ["ANY_ATTACK", "CONVERSE", "PRIOR_FREE", "log_prior_of_error"]

#: largest error of a pixel that counts as hit, as a share of the range (paper C, Appendix I)
_PIXEL = 32.0 / 255.0

# Every attack on a random record -----------------------------------------------------------------


def _log_cap(setting: Setting, point: Point | None) -> float:
    """Log of the share of the sphere that lies within the error of one guess."""
    assert point is not None
    n, norm = setting.need("dimension"), setting.need("data_norm")
    sine2 = min(n * (point.value / norm / norm), 1.0)
    if sine2 >= 1.0:
        return 0.0
    if sine2 < 1e-280:
        raise ValueError(
            "mse must be 0 or at least 1e-280 of data_norm**2/N; got "
            f"{arguments.shown(point.value)}"
        )
    return float(special.log_cap_tail(np.asarray(sine2), float(n)))


def _sphere(setting: Setting, point: Point | None) -> Interval:
    return success_at(setting.run, _log_cap(setting, point))


def log_prior_of_error(setting: Setting, point: Point | None) -> float:
    """Return the log chance that one guess is within the error of independent, uniform values."""
    assert point is not None
    return float(
        bounds.log_prior_success_box(
            point.value, setting.need("dimension"), setting.need("data_range")
        )
    )


def _box(setting: Setting, point: Point | None) -> Interval:
    return success_at(setting.run, log_prior_of_error(setting, point))


def _pixels(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    log_kappa = bounds.log_prior_success_pixels(setting.need("dimension"), point.value, _PIXEL)
    return success_at(setting.run, float(log_kappa))


_BOX = "The record's values are independent and uniform in the data range."


def _both_mechanisms(
    function: Callable, place: str, label: str, name: str, *, assumed: str, worth: str
):
    """Return the same method for both mechanisms, as keyword arguments of :class:`Kind`."""
    method = Method(
        function,
        Source("beyond" if "beyond" in label else "hayes2023", place, label, name),
        "gamma(kappa) at the prior success of the best constant guess",
        (ANY_NETWORK, assumed, POISSON),
        worth,
    )
    return {"gaussian": method, "vmf": method}


#: success of any attack on a random record
_any_success = functools.partial(
    Kind,
    threat_model="any_attack",
    unit="probability",
    direction="upper bound on success",
    riskier="larger",
)


# Every attack, by what the run can say -----------------------------------------------------------


def _nats(setting: Setting, participation: str = "known") -> float:
    """What the run can say about a record at most, through any network."""
    run = setting.run
    if not run.gaussian:
        assert run.concentration is not None and run.parameters is not None
        one = float(bounds.information_capacity_vmf(run.parameters, run.concentration))
        return run.sampling_rate * run.steps * one
    size = np.inf if run.parameters is None else float(run.parameters)
    if run.phases:
        noises, rates, steps = (
            np.array([float(getattr(p, name)) for p in run.each_phase])
            for name in ("noise_multiplier", "sampling_rate", "steps")
        )
        return float(
            np.sum(
                bounds.information_capacity(noises, rates, steps, size, participation=participation)
            )
        )
    args = run.effective_noise, run.sampling_rate, run.steps, size
    return float(bounds.information_capacity(*args, participation=participation))


def _information(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(_nats(setting))


def _information_secret(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(_nats(setting, "secret"))


def _mse_any_network(setting: Setting, point: Point | None) -> Interval:
    n, span = setting.need("dimension"), setting.need("data_range")
    low = float(bounds.mse_floor_uniform(_nats(setting), n, span, log=True))
    low -= 1e-12 * (1.0 + abs(low))
    return Interval(math.exp(low), None, low, None)


def _converse(function: str) -> Source:
    return Source(
        "beyond", "Every network, in nats", "prf-beyond-any-network", f"reconrisk.bounds.{function}"
    )


_TOLD = "It holds also for an attacker who is told which steps took the record."
_ERROR_FLOOR = Method(
    _mse_any_network,
    _converse("mse_floor_uniform"),
    "range^2 exp(-2 I/N)/(2 pi e), I the information of every network",
    (ANY_NETWORK, _BOX, _TOLD, INFORMED, POISSON),
    "No bound for one record: it averages over records, and real images, far from uniform, can be "
    "rebuilt better. Not known to be attained; where N sigma^2 is small the linear layer leaves "
    "far more.",
)

CONVERSE = (
    Kind(
        name="information_any_network",
        title="Information, every network",
        question="How many nats can the whole run say about a record, through any network?",
        threat_model="any_attack",
        unit="nats",
        direction="upper bound on leakage",
        riskier="larger",
        gaussian=Method(
            _information,
            _converse("information_capacity"),
            "q T (p/2) ln(1 + 1/(p sigma^2)), at most q T/(2 sigma^2)",
            (ANY_NETWORK, _TOLD, INFORMED, POISSON),
            "The capacity itself for one full-batch step and many parameters. A linear layer alone "
            "says at most (N/2) ln(1 + 1/(N sigma^2)) in a step. The record's entropy, the other "
            "limit, is not counted.",
        ),
        vmf=Method(
            _information,
            _converse("information_capacity_vmf"),
            "q T (kappa A - log of the reduced Bessel function of order p/2 - 1)",
            (ANY_NETWORK, _TOLD, INFORMED, POISSON),
            "Attained in one full-batch release by a direction spread evenly. The record's "
            "entropy, the other limit, is not counted.",
        ),
    ),
    Kind(
        name="information_secret_steps",
        title="Information, secret steps",
        question="How many nats can the whole run say about a record, through any network, if it "
        "is secret which steps took the record?",
        threat_model="any_attack",
        unit="nats",
        direction="upper bound on leakage",
        riskier="larger",
        gaussian=Method(
            _information_secret,
            _converse("information_capacity"),
            "the smaller of that and T KL((1 - q) N(0, 1) + q N(1/sigma, 1) || N(0, 1))",
            (ANY_NETWORK, INFORMED, POISSON),
            "Not known to be attained under sub-sampling. For small q and moderate noise about "
            "T q^2 (exp(1/sigma^2) - 1)/2.",
        ),
    ),
    Kind(
        name="mse_any_network",
        title="Mean squared error, every network",
        question="What mean squared error must every attack, through any network, leave on a "
        "record with independent values?",
        threat_model="any_attack",
        unit="squared data units",
        direction="lower bound on error",
        riskier="smaller",
        needs=("dimension", "data_range"),
        gaussian=_ERROR_FLOOR,
        vmf=_ERROR_FLOOR,
    ),
)


ANY_ATTACK = (
    _any_success(
        name="sphere_success",
        title="{at}, record on a sphere",
        question="How often can any attack come within {at} of a record of known norm?",
        at=("mse",),
        needs=("dimension", "data_norm"),
        **_both_mechanisms(
            _sphere,
            "Every attack, through every network",
            "prf-beyond-rero",
            "reconrisk.bounds.rero_sphere",
            assumed="The record is uniform on the sphere of its norm.",
            worth="Without sub-sampling the best attack through the analytic layer stays below; "
            "nothing is known to attain it.",
        ),
    ),
    _any_success(
        name="box_success",
        title="{at}, record in a box",
        question="How often can any attack come within {at} of a record with independent values?",
        at=("mse",),
        needs=("dimension", "data_range"),
        **_both_mechanisms(
            _box,
            "Every attack, through every network",
            "prf-beyond-rero",
            "reconrisk.bounds.rero_box",
            assumed=_BOX,
            worth="Not known to be attained. Real images are far from uniform: for them it is a "
            "statement about a record without structure, not about a photograph.",
        ),
    ),
    _any_success(
        name="pixel_success",
        title="{at} hit",
        question="How often can any attack come within an eighth of the range at {at}?",
        at=("pixel_share",),
        needs=("dimension",),
        **_both_mechanisms(
            _pixels,
            "Appendix I, with its prior success corrected",
            "prf-beyond-pixels",
            "reconrisk.bounds.log_prior_success_pixels",
            assumed=_BOX,
            worth="Not known to be attained.",
        ),
    ),
)


# The analytic attack -----------------------------------------------------------------------------


def _steps_and_rate(setting: Setting) -> tuple[int, float]:
    return setting.run.steps, setting.run.sampling_rate


def _noise(setting: Setting) -> float:
    value = setting.run.noise_multiplier
    assert value is not None
    return value


def _mse_one(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(float(bounds.expected_mse(_noise(setting), setting.need("data_norm"))))


def _expected(setting: Setting, norm: float) -> float:
    """Mean squared error of the unbiased average, given that at least one step took the record."""
    steps, rate = _steps_and_rate(setting)
    if rate == 1.0:
        return float(bounds.expected_mse(_noise(setting), norm, steps))
    return float(bounds.expected_mse_sampled(_noise(setting), norm, steps, rate))


def _mse(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(_expected(setting, setting.need("data_norm")))


def _mse_shrunk(setting: Setting, point: Point | None) -> Interval:
    n, norm, sigma = setting.need("dimension"), setting.need("data_norm"), _noise(setting)

    def error(count: np.ndarray) -> np.ndarray:
        # without a copy the estimate is zero
        return (sigma * norm) ** 2 / (count + n * sigma * sigma)

    return Interval.exactly(selection_mean(error, *_steps_and_rate(setting), least=0))


def _mse_single_row(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(_expected(setting, setting.run.max_grad_norm))


def _mse_tail_one(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    n, norm = setting.need("dimension"), setting.need("data_norm")
    return Interval.of_log(bounds.mse_tail(point.value, n, _noise(setting), norm, log=True))


def _mse_tail(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    args = point.value, setting.need("dimension"), _noise(setting), setting.need("data_norm")
    return Interval.of_log(bounds.mse_tail_sampled(*args, *_steps_and_rate(setting), log=True))


def _mse_tail_shrunk(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    args = point.value, setting.need("dimension"), _noise(setting), setting.need("data_norm")
    return Interval.of_log(bounds.mse_tail_shrunk(*args, setting.run.steps, log=True))


def _refuse_sampling(setting: Setting, point: Point | None) -> str:
    """Refuse sub-sampling: near the zero estimate's error, the shrunk tail is not monotone in K."""
    if setting.run.sampling_rate < 1.0:
        return "has a closed form without sub-sampling; the entry for every estimator covers it"
    return ""


def _best_tail(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    args = point.value, setting.need("dimension"), _noise(setting), setting.need("data_norm")
    found = selection_log_enclosure(
        lambda k: bounds.mse_tail_sphere(*args, k, log=True),
        *_steps_and_rate(setting),
        unselected=_log_cap(setting, point),  # whom no step shows the record may still guess
    )
    return Interval.of_logs(found.lower, found.upper)


def _psnr(setting: Setting, point: Point | None) -> Interval:
    n, norm, span = (setting.need(k) for k in ("dimension", "data_norm", "data_range"))
    one = float(bounds.expected_psnr(n, _noise(setting), norm, span))
    gain = selection_mean(lambda k: 10.0 * np.log10(k), *_steps_and_rate(setting))
    return Interval.exactly(one + gain)


def _psnr_tail(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    n, norm, span = (setting.need(k) for k in ("dimension", "data_norm", "data_range"))
    args = point.value, n, _noise(setting), norm, span, *_steps_and_rate(setting)
    return Interval.of_log(bounds.psnr_tail_sampled(*args, log=True))


def _contrast(setting: Setting) -> float:
    found = setting.record.contrast
    return 1.0 if found is None else found


def _ncc(setting: Setting, point: Point | None) -> Interval:
    n, sigma, contrast = setting.need("dimension"), _noise(setting), _contrast(setting)
    steps, rate = _steps_and_rate(setting)

    def log_value(count: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(bounds.expected_ncc(n, sigma, contrast, count))

    logs = selection_log_enclosure(log_value, steps, rate)
    found = Interval.of_logs(logs.lower, logs.upper)
    return Interval(found.lower, found.upper)


def _ncc_tail(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    args = point.value, setting.need("dimension"), _noise(setting), *_steps_and_rate(setting)
    return Interval.of_log(bounds.ncc_tail_sampled(*args, contrast=_contrast(setting), log=True))


def _refuse_clipped(setting: Setting, point: Point | None) -> str:
    norms, clip = setting.record.norms, setting.run.max_grad_norm
    longest = setting.need("data_norm") if norms is None else norms[-1]
    if longest > clip:
        return (
            f"the row is clipped: a record of norm {longest:g} exceeds the clipping norm {clip:g}"
        )
    return ""


def _refuse_one_value(setting: Setting, point: Point | None) -> str:
    return "correlation needs records of at least 2 values" if setting.need("dimension") < 2 else ""


def _direction_gaussian(setting: Setting, point: Point | None) -> Interval:
    n, sigma = setting.need("dimension"), _noise(setting)

    def log_gain(count: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(1.0 - bounds.direction_error_gaussian(n, sigma / np.sqrt(count)))

    gain = selection_log_enclosure(log_gain, *_steps_and_rate(setting))
    return Interval.of(max(-math.expm1(gain.upper), 0.0), max(-math.expm1(gain.lower), 0.0))


def _direction_vmf(setting: Setting, point: Point | None) -> Interval:
    run = setting.run
    assert run.concentration is not None and run.parameters is not None
    n = setting.need("dimension")
    if run.parameters < n:
        raise ValueError(f"dimension must be at most parameters, {run.parameters}; got {n}")
    return Interval.exactly(float(bounds.direction_error_vmf(n, run.concentration, run.parameters)))


def _refuse_direction(setting: Setting, point: Point | None) -> str:
    if setting.need("dimension") < 2:
        return "a direction needs records of at least 2 values"
    if setting.run.steps > 1 and not setting.run.gaussian:
        return "several releases of a direction have no closed form here"
    noisy = setting.run.gaussian
    if noisy and _noise(setting) < (least := 1e-4 * math.sqrt(setting.run.steps)):
        return f"the direction is computed from a noise multiplier of {least:.3g} on"
    return ""


_ATTACKER = (
    "The attacker put a linear layer in front, each of whose rows has the record as its gradient, "
    "and averages what it gives; another network can say more. The record's gradient is read "
    "alone, that of the others known or absent. Under sub-sampling it knows which steps took the "
    "record, which the certified bounds do not assume."
)
_SCALE = "The scale at which clipping left the gradient is granted to the attacker."
_NO_GUESS = "A record that no step took counts as not reconstructed."
_PAPER_A = "mean_to_extreme"
_UNBIASED = (
    "Exact for the unbiased reconstruction, measured on photographs and digits. Not a bound: "
    "shrinking the estimate has a smaller error at every record."
)

#: mean error of the analytic attack
_analytic_error = functools.partial(
    Kind,
    threat_model="prior_free",
    unit="squared data units",
    direction="exact for one attack",
    riskier="smaller",
)
#: success of the analytic attack
_analytic_success = functools.partial(
    Kind,
    threat_model="prior_free",
    unit="probability",
    direction="exact for one attack",
    riskier="larger",
)

PRIOR_FREE = (
    _analytic_error(
        name="mse_one_step",
        title="Mean squared error, one step",
        question="What mean squared error does the analytic attack leave after one step that took "
        "the record?",
        needs=("data_norm",),
        gaussian=Method(
            _mse_one,
            Source(
                _PAPER_A,
                "Proposition 2, eq. (21)",
                "prf-mean_to_extreme-prop2",
                "reconrisk.bounds.expected_mse",
            ),
            "sigma^2 |X|^2",
            (_ATTACKER, _SCALE),
            _UNBIASED,
        ),
    ),
    _analytic_error(
        name="mse",
        title="Mean squared error, whole run",
        question="What mean squared error does the analytic attack leave after the whole run?",
        needs=("data_norm",),
        attained_by="mse_shrunk",
        gaussian=Method(
            _mse,
            Source(
                _PAPER_A,
                "Propositions 2 and 7",
                "prf-beyond-many-steps",
                "reconrisk.bounds.expected_mse_sampled",
            ),
            "sigma^2 |X|^2 E[1/K | K >= 1], K ~ Binomial(T, q)",
            (_ATTACKER, _SCALE, "Given that at least one step took the record."),
            _UNBIASED,
        ),
    ),
    _analytic_error(
        name="mse_shrunk",
        title="Mean squared error, estimate scaled down",
        question="What mean squared error does the analytic attack leave after the whole run if it "
        "scales its estimate down, for a smaller error?",
        needs=("dimension", "data_norm"),
        gaussian=Method(
            _mse_shrunk,
            Source(
                "beyond",
                "Shrinkage and minimax",
                "prf-beyond-minimax",
                "reconrisk.bounds.expected_mse_shrunk",
            ),
            "sigma^2 |X|^2 E[1/(K + N sigma^2)]",
            (_ATTACKER, _SCALE, "A record that no step took is estimated by zero."),
            "No estimate from the linear layer's observations alone has a smaller worst-case error "
            "relative to the record's squared norm. Knowing the norm, the pixels' range or a prior "
            "does better, and so may another network.",
        ),
    ),
    _analytic_error(
        name="mse_single_row",
        title="Mean squared error, one row",
        question="What mean squared error does a single row of the gradient leave after the whole "
        "run?",
        needs=("data_norm",),
        gaussian=Method(
            _mse_single_row,
            Source(
                "ziller2024",
                "Proposition 1, eq. (5), and Proposition 4",
                "prf-ziller2024-prop1",
                "reconrisk.bounds.expected_mse",
            ),
            "C^2 sigma^2 E[1/K | K >= 1]; at q = 1, C^2 sigma^2/T",
            (
                "The attack reads one row of the gradient as the record, without rescaling it.",
                "Given that at least one step took the record.",
            ),
            "Printed as a lower bound for every record, but true only for norms up to C; the row "
            "mean of paper A is better on records shorter than C, and shrinking on all.",
            _refuse_clipped,
        ),
    ),
    _analytic_success(
        name="mse_tail_one_step",
        title="{at}, one step",
        question="How often does the analytic attack reach {at} in one step that took the record?",
        at=("mse",),
        needs=("dimension", "data_norm"),
        attained_by="best_tail",
        gaussian=Method(
            _mse_tail_one,
            Source(
                _PAPER_A,
                "Theorem 2, eq. (23)",
                "prf-mean_to_extreme-thm2",
                "reconrisk.bounds.mse_tail",
            ),
            "P(N/2, N eta/(2 sigma^2 |X|^2)), the regularised incomplete gamma function",
            (_ATTACKER, _SCALE),
            _UNBIASED,
        ),
    ),
    _analytic_success(
        name="mse_tail",
        title="{at}, whole run",
        question="How often does the analytic attack reach {at} in the whole run?",
        at=("mse",),
        needs=("dimension", "data_norm"),
        attained_by="best_tail",
        gaussian=Method(
            _mse_tail,
            Source(
                "beyond",
                "The averaged attack with sampling",
                "prf-beyond-many-steps",
                "reconrisk.bounds.mse_tail_sampled",
            ),
            "sum over k >= 1 of P(K = k) P(N/2, k N eta/(2 sigma^2 |X|^2))",
            (_ATTACKER, _SCALE, _NO_GUESS),
            _UNBIASED,
        ),
    ),
    _analytic_success(
        name="mse_tail_shrunk",
        title="{at}, estimate scaled down",
        question="How often does the analytic attack reach {at} in the whole run if it scales its "
        "estimate down?",
        at=("mse",),
        needs=("dimension", "data_norm"),
        attained_by="best_tail",
        gaussian=Method(
            _mse_tail_shrunk,
            Source(
                "beyond",
                "Shrinkage",
                "prf-beyond-shrinkage",
                "reconrisk.bounds.mse_tail_shrunk",
            ),
            "a non-central chi-square law",
            (_ATTACKER, _SCALE, "Every step took the record."),
            "Exact for the shrunk reconstruction; the best estimate of known norm is in the entry "
            "for every estimator. More noise raises it where a zero estimate succeeds.",
            _refuse_sampling,
        ),
        reversible=False,
    ),
    Kind(
        name="best_tail",
        title="{at}, every estimator",
        question="How often can any estimate from the analytic attack's observations reach {at} on "
        "every record of the norm?",
        threat_model="prior_free",
        unit="probability",
        direction="upper bound on success",
        riskier="larger",
        at=("mse",),
        needs=("dimension", "data_norm"),
        gaussian=Method(
            _best_tail,
            Source(
                "beyond",
                "Sphere bound",
                "prf-beyond-sphere",
                "reconrisk.bounds.mse_tail_sphere",
            ),
            "P(cos(X, X_hat) >= sqrt(1 - N eta/|X|^2)), mixed over the number of copies",
            (_ATTACKER, _SCALE, "The norm of the record is known to the attacker."),
            "Attained by the scaled direction of the average, at every record of the norm. It "
            "binds the linear layer's observations only: for every network see the entries above.",
        ),
    ),
    Kind(
        name="psnr",
        title="PSNR, whole run",
        question="What peak signal-to-noise ratio does the analytic attack reach in the whole run?",
        threat_model="prior_free",
        unit="dB",
        direction="exact for one attack",
        riskier="larger",
        needs=("dimension", "data_norm", "data_range"),
        gaussian=Method(
            _psnr,
            Source(
                "ziller2024",
                "Proposition 2, with its bound corrected",
                "prf-ziller2024-prop2",
                "reconrisk.bounds.expected_psnr",
            ),
            "10 log10(range^2/(sigma^2 |X|^2)) + (10/ln 10)(ln(N/2) - psi(N/2)) + 10 E log10 K",
            (_ATTACKER, _SCALE, "Given that at least one step took the record."),
            _UNBIASED,
        ),
    ),
    _analytic_success(
        name="psnr_tail",
        title="{at}, whole run",
        question="How often does the analytic attack reach {at} in the whole run?",
        at=("psnr",),
        needs=("dimension", "data_norm", "data_range"),
        gaussian=Method(
            _psnr_tail,
            Source(
                _PAPER_A,
                "Proposition 4, eq. (25)",
                "prf-mean_to_extreme-prop4",
                "reconrisk.bounds.psnr_tail_sampled",
            ),
            "the law of the MSE at range^2 10^(-eta/10)",
            (_ATTACKER, _SCALE, _NO_GUESS),
            _UNBIASED,
        ),
    ),
    Kind(
        name="ncc",
        title="Correlation, whole run",
        question="What correlation with the record does the analytic attack reach in the whole "
        "run?",
        threat_model="prior_free",
        unit="correlation",
        direction="exact for one attack",
        riskier="larger",
        needs=("dimension",),
        gaussian=Method(
            _ncc,
            Source("beyond", "NCC law", "prf-beyond-ncc", "reconrisk.bounds.expected_ncc"),
            "k sqrt(2/pi) integral of exp(-k^2 t^2/2)(1 - t^2)^((N-2)/2), "
            "k = contrast sqrt(K)/sigma",
            (
                _ATTACKER,
                "At contrast one, the largest, where the record's is not given.",
                _NO_GUESS,
            ),
            "Exact for the record of that contrast; shrinking does not change a correlation. The "
            "printed value of papers A and B is slightly smaller: it is no bound.",
            _refuse_one_value,
        ),
    ),
    _analytic_success(
        name="ncc_tail",
        title="{at}, whole run",
        question="How often does the analytic attack reach {at} in the whole run?",
        at=("ncc",),
        needs=("dimension",),
        gaussian=Method(
            _ncc_tail,
            Source("beyond", "NCC law", "prf-beyond-ncc", "reconrisk.bounds.ncc_tail_sampled"),
            "a non-central t law, mixed over the number of copies",
            (
                _ATTACKER,
                "At contrast one, the largest, where the record's is not given.",
                _NO_GUESS,
            ),
            "Exact for the record of that contrast; shrinking does not change a correlation.",
            _refuse_one_value,
        ),
    ),
    Kind(
        name="direction_error",
        title="Error of the direction",
        question="What squared error on the record's direction can a linear layer's attacker "
        "without a prior guarantee?",
        threat_model="prior_free",
        unit="ratio",
        direction="lower bound on error",
        riskier="smaller",
        needs=("dimension",),
        gaussian=Method(
            _direction_gaussian,
            Source(
                "beyond",
                "Direction under either noise",
                "prf-beyond-vmf-direction",
                "reconrisk.bounds.direction_error_gaussian",
            ),
            "1 - E A_N(|y|/s^2)^2, s = sigma/sqrt(K)",
            (_ATTACKER, "Directions are compared by squared distance; one where nothing is seen."),
            "Attained by the posterior mean under directions spread evenly.",
            _refuse_direction,
        ),
        vmf=Method(
            _direction_vmf,
            Source(
                "beyond",
                "Direction under either noise",
                "prf-beyond-vmf-direction",
                "reconrisk.bounds.direction_error_vmf",
            ),
            "1 - E A_N(kappa |z|)^2",
            (
                "One release that took the record, which is read from a layer of equal rows.",
                "The record's length is lost.",
            ),
            "Attained by the posterior mean under directions spread evenly.",
            _refuse_direction,
        ),
    ),
)
