"""Our own: one DP-SGD run through every notion of reconstruction risk, other defences beside it.

A small network is trained by full-batch DP-SGD; the adversary knows all records but one, as Hayes
et al. have it. At each noise multiplier every bound of this study is computed for that run, and
every attack that it bounds is carried out on the same records. Defences without noise are put on
the same scale: what they do to one record's gradient, and what is left of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import optimize
from scipy.spatial.distance import cdist

from companion.experiments.tools import as_numpy, attack_repeatedly, data_folder
from companion.papers.hayes2023 import old_gradients as informed
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.sweep import run_sweep
from companion.study.verdicts import STANDARD_ERRORS, Verdict, check
from reconrisk import DPSGD, bounds, privacy
from reconrisk.attacks import baselines
from reconrisk.attacks import gradient_matching as matching
from reconrisk.attacks._levenberg_marquardt import minimise_squares
from reconrisk.attacks.prior_aware import success_interval
from reconrisk.mechanisms import Clipping, EntryDropout, Pruning, defend
from reconrisk.training import Weights

__all__ = ["clipped_gradient", "fit_record", "measure_run", "read_first_layer"]

#: chance at which a bound's check may fail although the bound holds
RARELY = 1e-6
#: the mean squared error that counts as success, as a share of the nearest neighbour's
NEAR = 0.25
#: bounds on unbiased reconstructions are held against least squares where they are this small
SMALL = 0.05


# One record's gradient, and least squares on it --------------------------------------------------


def clipped_gradient(
    weights: Weights, record: torch.Tensor, label: torch.Tensor, max_grad_norm: float = math.inf
) -> Weights:
    """Return one record's clipped gradient at each of T models with a hidden layer.

    Parameters
    ----------
    weights : Weights, shape (T, ...)
    record : Tensor, shape (d,)
    label : Tensor, scalar
    max_grad_norm : float

    Returns
    -------
    Weights, shape (T, ...)
        Differentiable in the record.
    """
    responses = weights["hidden.weight"] @ record + weights["hidden.bias"]
    hidden = torch.nn.functional.elu(responses)
    logits = (weights["output.weight"] @ hidden[..., None])[..., 0] + weights["output.bias"]
    wanted = (torch.arange(logits.shape[-1], device=logits.device) == label).to(logits.dtype)
    outer = logits.softmax(dim=-1) - wanted
    back = (outer[..., None, :] @ weights["output.weight"])[..., 0, :]
    inner = back * (hidden.clamp(max=0) + 1)
    if math.isfinite(max_grad_norm):
        squared = outer.square().sum(dim=-1) * (hidden.square().sum(dim=-1) + 1)
        squared = squared + inner.square().sum(dim=-1) * (record.square().sum() + 1)
        factor = (max_grad_norm * squared.rsqrt()).clamp(max=1)[..., None]
        outer, inner = factor * outer, factor * inner
    return {
        "hidden.weight": inner[..., None] * record,
        "hidden.bias": inner,
        "output.weight": outer[..., None] * hidden[..., None, :],
        "output.bias": outer,
    }


def fit_record(
    weights: Weights,
    residuals: Weights,
    label: torch.Tensor,
    max_grad_norm: float,
    start: np.ndarray,
    *,
    iterations: int = 30,
) -> np.ndarray:
    """Fit a record to all steps' residuals by least squares, pixels of any size.

    Levenberg and Marquardt's method with the information of
    :func:`reconrisk.attacks.linearised_variance` in place of second derivatives. For small noise
    the result is unbiased, with the covariance of the Cramer-Rao bound.

    Parameters
    ----------
    weights, residuals : Weights, shape (T, ...), float64
    label : Tensor, scalar
    max_grad_norm : float
    start : ndarray, shape (d,)
    iterations : int

    Returns
    -------
    ndarray, shape (d,)
    """

    def squares(record: torch.Tensor) -> torch.Tensor:
        found = clipped_gradient(weights, record, label, max_grad_norm)
        return torch.stack(
            [(g - residuals[name]).square().sum() for name, g in found.items()]
        ).sum()

    def loss(point: np.ndarray) -> float:
        return float(squares(torch.as_tensor(point)))

    def normal(point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        record = torch.as_tensor(point).requires_grad_()
        value = squares(record)
        (slope,) = torch.autograd.grad(value, record)
        information = matching._information(weights, record.detach(), label, max_grad_norm)
        return float(value.detach()), 0.5 * as_numpy(slope), as_numpy(information)

    return minimise_squares(normal, loss, start, iterations=iterations, enough=0.0)[0]


# One level of noise ------------------------------------------------------------------------------


def measure_run(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train models at one epsilon and carry out the informed adversary's attacks on each.

    Parameters
    ----------
    task : dict
        As for ``attack_targets`` of the experiments on Hayes et al., and ``matched`` and
        ``fitted``: how many of the targets are attacked by gradient matching, and by least squares.
    seed : int
        Not used: draws depend on the task's own seeds.

    Returns
    -------
    dict
        ``mse`` (matched,) of gradient matching within the range of pixels; ``above sum``,
        ``above likelihood`` (targets,): candidates preferred to the target; ``bound`` (fitted, d):
        the Cramer-Rao bound on each pixel's variance; ``error`` (fitted, d): of least squares.
    """
    del seed
    scene = informed._scene(task)
    stored, pixels, labels = informed._trained(scene)
    some, few = slice(0, task["matched"]), slice(0, task["fitted"])
    rebuilt = as_numpy(
        matching.match_gradients(
            *(
                {n: w[:, some] for n, w in part.items()}
                for part in (stored.weights, stored.residuals)
            ),
            scene.run,
            labels[some],
            generator=scene.generator(2),
            iterations=task["iterations"],
            learning_rate=task["rate"],
        ).inputs
    )
    truth = as_numpy(pixels[some])
    wide, seen = (
        {name: w[:, few].double() for name, w in part.items()}
        for part in (stored.weights, stored.residuals)
    )
    variance = matching.linearised_variance(wide, pixels[few], labels[few], scene.run)
    errors = []
    for k, start in enumerate(rebuilt[few]):
        own, residual = ({n: w[:, k] for n, w in part.items()} for part in (wide, seen))
        norm = scene.run.max_grad_norm
        errors.append(fit_record(own, residual, labels[k], norm, start) - truth[k])
    return {
        "mse": np.mean((rebuilt - truth) ** 2, axis=1),
        **informed._preferred(scene, stored, scene.positions("others")[: task["pool"]]),
        "bound": as_numpy(variance),
        "error": np.asarray(errors),
    }


def _tasks(context: Context) -> list[dict[str, Any]]:
    p = context.settings
    names = ("hidden", "known", "max_grad_norm", "training_rate", "delta", "steps", "iterations")
    shared = {name: p[name] for name in (*names, "rate", "pool", "fitted")} | {
        "data": p.data,
        "data_root": data_folder(context, p.data),
        "side": 32,
        "features": 0,
        "matched": p.targets,
        "device": context.device,
        "first": 0,
        "count": min(p.ranked, p.pool),
        "selection_seed": context.seed_of("records"),
    }
    return [shared | {"epsilon": e, "noise_seed": context.seed_of("noise", e)} for e in p.epsilons]


def _measured(context: Context, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    store = context.checkpoints / "companion-one_scale" if context.checkpoints else None
    return run_sweep(
        measure_run,
        tasks,
        seed=context.seed,
        workers=context.workers,
        scheduler=context.scheduler,
        store=store,
        label=context.exhibit,
    )


@computes("beyond/one_scale", "O-051", "O-052")
def one_scale(context: Context) -> Result:
    """Every notion at the same settings, with the attacks that it bounds, and other defences."""
    p = context.settings
    tasks = _tasks(context)
    scene = informed._scene(tasks[0])
    pool = scene.images.inputs[scene.positions("others")[: p.pool]].astype(float)
    guesses = _Guesses(pool, p.prior_size)
    rows = [
        _level(context, guesses, tasks[i]["epsilon"], found, scene.classifier)
        for i, found in enumerate(_measured(context, tasks))
    ]
    table = pd.DataFrame(rows)
    table.attrs = {
        "parameters": sum(math.prod(shape) for shape in scene.classifier.shapes.values()),
        "guess": 1 / p.prior_size,
        "delta": p.delta,
    }
    defences = _defences(context, scene, pool)
    thresholds = _thresholds(context, table, guesses)
    curves = _curves(context, table, guesses)
    return Result(
        "beyond/one_scale",
        [
            _panel_verdict(table, guesses),
            _bounds_verdict(table, p.data != "MNIST"),
            _defence_verdict(defences, p.data != "MNIST"),
        ],
        {
            "notions": table,
            "curves": curves,
            "thresholds": thresholds,
            "defences": defences,
            "guesses": pd.DataFrame(
                {"guess": ["mean image", "nearest neighbour"], "RMSE": [guesses.mean, guesses.near]}
            ),
        },
        ran=f"{p.data}, {scene.classifier.inputs}-{p.hidden}-10 network, {p.steps} full-batch "
        f"steps, {p.known} known records, {p.targets} targets at each of {len(p.epsilons)} noise "
        f"levels; {len(defences)} defences on the same targets.",
    )


class _Guesses:
    """What is known without any gradient: baselines, and the prior's success at two scores."""

    def __init__(self, pool: np.ndarray, prior_size: int) -> None:
        nearest = baselines.nearest_neighbour_mse(pool)
        self.prior_size = prior_size
        self.mean = math.sqrt(baselines.mean_record_mse(pool))
        self.near = math.sqrt(float(nearest.mean()))
        #: mean squared error that counts as success
        self.threshold = NEAR * float(nearest.mean())
        distances = cdist(pool, pool) / math.sqrt(pool.shape[1])
        self.kappa = bounds.prior_success_ball_any_centre(
            0.5 * (distances + distances.T), math.sqrt(self.threshold)
        ).upper
        self.norms = np.linalg.norm(pool, axis=1)
        self.pool = pool


def _level(
    context: Context, guesses: _Guesses, epsilon: float, found: Mapping[str, Any], classifier: Any
) -> dict[str, float]:
    """All notions and attacks at one noise level."""
    p = context.settings
    sigma = privacy.noise_for_epsilon(epsilon, p.delta, steps=p.steps)
    run = DPSGD(sigma, steps=p.steps, max_grad_norm=p.max_grad_norm)
    n = p.prior_size
    parameters = sum(math.prod(shape) for shape in classifier.shapes.values())
    mse = np.asarray(found["mse"])
    aware = {
        name: baselines.conversion_success(
            np.asarray(found[f"above {name}"]), len(guesses.pool) - 1, n
        )
        for name in ("sum", "likelihood")
    }
    near = int(np.count_nonzero(mse <= guesses.threshold))
    row = {
        "sigma": sigma,
        "epsilon": privacy.epsilon(run, p.delta).upper,
        "log capacity": p.steps * float(bounds.bayes_capacity_gaussian(parameters, sigma, 1.0)),
        "ReRo": bounds.rero(run, 1 / n).upper,
        "ReRo of a near miss": bounds.rero(run, guesses.kappa).upper,
        "prior-aware": float(aware["likelihood"].mean()),
        "prior-aware error": _error(aware["likelihood"]),
        "prior-aware, sum": float(aware["sum"].mean()),
        "prior-aware, sum error": _error(aware["sum"]),
        "RMSE": math.sqrt(float(mse.mean())),
        "RMSE error": _error(mse) / (2 * math.sqrt(float(mse.mean()))),
        "near": near / len(mse),
        "near, surely": success_interval(near, len(mse), 1 - 2 * RARELY)[0],
    }
    return row | _unbiased(found) | _analytic(context, guesses, run, epsilon)


def _error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _unbiased(found: Mapping[str, Any]) -> dict[str, float]:
    """The Cramer-Rao bound and least squares, as root mean squares and in units of each other."""
    bound, error = (np.asarray(found[name], dtype=float) for name in ("bound", "error"))
    ratios = np.mean(error**2, axis=1) / np.mean(bound, axis=1)
    return {
        "Cramer-Rao": math.sqrt(float(np.mean(bound))),
        "least squares": math.sqrt(float(np.mean(error**2))),
        "least squares over bound": math.sqrt(float(ratios.mean())),
        "least squares over bound error": _error(ratios) / (2 * math.sqrt(float(ratios.mean()))),
    }


def _analytic(context: Context, guesses: _Guesses, run: DPSGD, epsilon: float) -> dict[str, float]:
    """The server's own layer in place of the network: the row mean's law, and the row mean."""
    p = context.settings
    squares, expected, tails = [], [], []
    for target, record in enumerate(guesses.pool[: p.targets]):
        # the mean of T steps' reconstructions is one with T times less variance
        rebuilt = attack_repeatedly(
            context,
            record,
            run.noise_multiplier / math.sqrt(p.steps),
            p.max_grad_norm,
            p.analytic_repeats,
            key=("analytic", epsilon, target),
        )
        squares.append(np.mean((rebuilt - record) ** 2, axis=1))
        norm = float(np.linalg.norm(record))
        expected.append(float(bounds.expected_mse(run.noise_multiplier, norm, p.steps)))
        tails.append(_tail(guesses, run, norm))
    mse = np.asarray(squares)
    share = float(np.mean(mse <= guesses.threshold))
    # shares of one record's repeats are binomial; records differ
    exact = float(np.mean(tails))
    spread = math.sqrt(float(np.mean([t * (1 - t) for t in tails])) / mse.size)
    return {
        "analytic RMSE": math.sqrt(float(mse.mean())),
        "analytic RMSE error": math.sqrt(float(np.mean(mse.var(axis=1, ddof=1))) / mse.size)
        / (2 * math.sqrt(float(mse.mean()))),
        "analytic, expected": math.sqrt(float(np.mean(expected))),
        "analytic near": share,
        "analytic near, exact": exact,
        "analytic near error": spread,
        "prior-free tail": _tail(guesses, run, float(guesses.norms.min())),
    }


def _tail(guesses: _Guesses, run: DPSGD, norm: float) -> float:
    return float(
        bounds.mse_tail(
            guesses.threshold,
            guesses.pool.shape[1],
            run.noise_multiplier,
            norm,
            run.steps,
        )
    )


# Where the danger ends ---------------------------------------------------------------------------


def _curves(context: Context, table: pd.DataFrame, guesses: _Guesses) -> pd.DataFrame:
    """The bounds in closed form between the levels that were run."""
    p = context.settings
    parameters, norm = int(table.attrs["parameters"]), float(guesses.norms.min())
    sigma = np.geomspace(0.7 * table["sigma"].min(), 1.4 * table["sigma"].max(), 61)
    capacity = p.steps * bounds.bayes_capacity_gaussian(parameters, sigma, 1.0)
    epsilon = [privacy.epsilon(DPSGD(s, steps=p.steps), p.delta).upper for s in sigma]
    return pd.DataFrame(
        {
            "sigma": sigma,
            "epsilon": epsilon,
            "log capacity": capacity,
            "ReRo": bounds.rero_gaussian(sigma, 1 / p.prior_size, steps=p.steps),
            "ReRo of a near miss": bounds.rero_gaussian(sigma, guesses.kappa, steps=p.steps),
            "by epsilon": np.minimum(np.exp(np.minimum(epsilon, 50.0)) / p.prior_size + p.delta, 1),
            "by capacity": np.exp(np.minimum(capacity - math.log(p.prior_size), 0.0)),
            "prior-free tail": [_tail(guesses, DPSGD(s, steps=p.steps), norm) for s in sigma],
        }
    )


#: an advantage over guessing, or a probability of a near miss, that is taken as none
NONE = 0.1


def _thresholds(context: Context, table: pd.DataFrame, guesses: _Guesses) -> pd.DataFrame:
    """The noise multiplier from which each notion says that nothing is to be feared.

    Probabilities: an advantage of a tenth over the guess. Errors: no better than the mean image, or
    than the nearest other record.
    """
    p = context.settings
    n, steps = p.prior_size, p.steps

    def least(value: Callable[[float], float], level: float) -> float:
        """Where a falling function of sigma reaches a level."""
        root = optimize.brentq(lambda u: value(math.exp(u)) - level, -12.0, 16.0)
        return math.exp(root)

    def rero(kappa: float) -> Callable[[float], float]:
        return lambda s: float(bounds.rero_gaussian(s, kappa, steps=steps))

    def measured(column: str, level: float) -> float:
        return _crossing(table["sigma"], table[column], level)

    parameters = int(table.attrs["parameters"])
    norm = float(guesses.norms.min())
    mean, near = guesses.mean, guesses.near
    rows = [
        ("bound", "epsilon = 1", privacy.noise_for_epsilon(1.0, p.delta, steps=steps)),
        ("bound", "epsilon = 10", privacy.noise_for_epsilon(10.0, p.delta, steps=steps)),
        (
            "bound",
            "capacity = prior size",
            least(
                lambda s: steps * float(bounds.bayes_capacity_gaussian(parameters, s, 1.0)),
                math.log(n),
            ),
        ),
        ("bound", "ReRo, candidates", least(rero(1 / n), 1 / n + NONE)),
        ("attack", "prior-aware attack", measured("prior-aware", 1 / n + NONE)),
        ("bound", "ReRo, near miss", least(rero(guesses.kappa), min(guesses.kappa + NONE, 0.999))),
        (
            "bound",
            "prior-free tail",
            least(lambda s: _tail(guesses, DPSGD(s, steps=steps), norm), NONE),
        ),
        ("attack", "analytic attack: mean image", measured("analytic RMSE", mean)),
        ("bound", "Cramer-Rao: mean image", measured("Cramer-Rao", mean)),
        ("attack", "gradient matching: mean image", measured("RMSE", mean)),
        ("attack", "gradient matching: neighbour", measured("RMSE", near)),
    ]
    found = pd.DataFrame(rows, columns=["kind", "notion", "sigma"])
    return found.sort_values("sigma", ascending=False, ignore_index=True)


def _crossing(sigma: pd.Series, values: pd.Series, level: float) -> float:
    """The noise at which values cross a level, by interpolation in log sigma.

    Outside of the levels that were run, the nearest of them.
    """
    order = np.argsort(sigma.to_numpy())
    x, y = np.log(sigma.to_numpy()[order]), values.to_numpy()[order] - level
    change = np.flatnonzero(np.sign(y[:-1]) != np.sign(y[1:]))
    if not len(change):
        return float(np.exp(x[0] if abs(y[0]) < abs(y[-1]) else x[-1]))
    i = int(change[0])
    return float(np.exp(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i])))


# Defences without noise --------------------------------------------------------------------------


def read_first_layer(
    gradient: Weights, visible: Mapping[str, torch.Tensor] | None = None, *, pruned: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read a record off the first layer's gradient: rows are multiples of it, biases the factors.

    Parameters
    ----------
    gradient : Weights
        Of one record and one model, defended.
    visible : mapping of str to Tensor of bool, optional
        Entries that were released; None for all.
    pruned : bool
        Whether the others were removed because they are smaller than all that were released: they
        then have a limit.

    Returns
    -------
    record : ndarray, shape (d,)
        By least squares over the rows released, zero where there is none.
    read : ndarray of bool, shape (d,)
        Which values were read.
    limit : ndarray, shape (d,)
        What the size of the others cannot exceed.
    """
    rows, bias = as_numpy(gradient["hidden.weight"]), as_numpy(gradient["hidden.bias"])
    known = np.ones_like(bias, dtype=bool)
    seen = np.ones_like(rows, dtype=bool)
    if visible is not None:
        known = visible["hidden.bias"].numpy()
        seen = visible["hidden.weight"].numpy() & known[:, None]
    weight = np.where(seen, bias[:, None] ** 2, 0.0).sum(axis=0)
    read = weight > 0
    top = np.where(seen, rows * bias[:, None], 0.0).sum(axis=0)
    record = np.divide(top, weight, out=np.zeros_like(weight), where=read)
    limit = np.full(len(record), math.inf)
    if pruned and visible is not None and known.any():
        least = min(
            float(g[visible[k]].abs().min()) for k, g in gradient.items() if visible[k].any()
        )
        limit[:] = least / np.max(np.abs(bias[known]))
    return record, read, limit


Update = Callable[[torch.Tensor, torch.Tensor], Weights]


def _updates(context: Context, weights: Weights) -> dict[str, tuple[Update, tuple[Any, ...]]]:
    """Each defence: what the client computes of a record, and what is done to it."""
    p = context.settings

    def plain(record: torch.Tensor, label: torch.Tensor) -> Weights:
        return {k: g[0] for k, g in clipped_gradient(weights, record, label).items()}

    def local(record: torch.Tensor, label: torch.Tensor) -> Weights:
        now, total = weights, {k: torch.zeros_like(w) for k, w in weights.items()}
        for _ in range(p.local_steps):
            step = clipped_gradient(now, record, label)
            now = {k: w - p.local_rate * step[k] for k, w in now.items()}
            total = {k: t + step[k] / p.local_steps for k, t in total.items()}
        return {k: t[0] for k, t in total.items()}

    return {
        "none": (plain, ()),
        "clipping": (plain, (Clipping(p.max_grad_norm),)),
        **{f"pruning {share:g}": (plain, (Pruning(share),)) for share in p.pruned},
        **{f"entry dropout {share:g}": (plain, (EntryDropout(share),)) for share in p.dropped},
        f"local aggregation, {p.local_steps} steps": (local, ()),
    }


def _defences(context: Context, scene: Any, pool: np.ndarray) -> pd.DataFrame:
    """What each defence leaves of one record's gradient at the first weights."""
    p = context.settings
    weights = {k: w.double()[None].cpu() for k, w in scene.initial().items()}
    positions = scene.positions("others")[: p.pool]
    labels = torch.as_tensor(scene.images.labels[positions])
    records = torch.as_tensor(pool)
    mean = pool.mean(axis=0)
    rows = []
    for name, (update, transforms) in _updates(context, weights).items():
        every = torch.func.vmap(update)(records, labels)
        generator = context.generator("defence", name)
        pruned = any(isinstance(part, Pruning) for part in transforms)
        # what is dropped at random shows, and is left out of the comparison with candidates
        random = any(isinstance(part, EntryDropout) for part in transforms)
        alike = every if random else dict(defend(every, transforms, generator=generator).gradient)
        errors, found, right, ranks, apart = [], [], [], [], [0.0]
        for k in range(p.targets):
            own = {n: g[k : k + 1] for n, g in every.items()}
            released = defend(own, transforms, generator=generator)
            seen = None
            if released.visible is not None:
                seen = {n: mask[0] for n, mask in released.visible.items()}
            one = {n: g[0] for n, g in released.gradient.items()}
            record, read, limit = read_first_layer(one, seen, pruned=pruned)
            guess = np.where(read, record, np.minimum(mean, 0.5 * limit))
            errors.append(np.mean((guess - pool[k]) ** 2))
            found.append(read.mean())
            apart.append(float(np.max(np.abs(np.where(read, record - pool[k], 0.0)))))
            right.append(_nearest(alike, one, seen if random else None) == k)
            if k < p.fitted:
                ranks.append(_rank(update, records[k], labels[k], seen))
        full = np.mean(np.asarray(ranks) == pool.shape[1])
        rows.append(
            {
                "defence": name,
                "epsilon": math.inf,
                "right candidate": float(np.mean(right)),
                "values read": float(np.mean(found)),
                "largest error of those": max(apart),
                "RMSE": math.sqrt(float(np.mean(errors))),
                "records determined": float(full),
                "Cramer-Rao": 0.0 if full == 1 else math.inf,
            }
        )
    return pd.DataFrame(rows)


def _nearest(
    candidates: Weights, released: Weights, visible: Mapping[str, torch.Tensor] | None
) -> int:
    """The candidate whose gradient is nearest to what was released, over the visible entries."""
    total = torch.zeros(len(next(iter(candidates.values()))), dtype=torch.float64)
    for name, g in candidates.items():
        gap = (g - released[name]).flatten(1).square()
        total += (gap if visible is None else gap * visible[name].flatten()).sum(dim=1)
    return int(total.argmin())


def _rank(
    update: Update,
    record: torch.Tensor,
    label: torch.Tensor,
    visible: Mapping[str, torch.Tensor] | None,
) -> int:
    """Rank of the released entries' derivatives in the record."""
    slopes = torch.func.jacrev(lambda x: update(x, label), chunk_size=1024)(record)
    rows = []
    for name, slope in slopes.items():
        flat = slope.reshape(-1, len(record))
        rows.append(flat if visible is None else flat[visible[name].flatten()])
    stacked = torch.cat(rows)
    # of the Gram matrix: there are far more entries than values of a record
    return int(torch.linalg.matrix_rank(stacked.mT @ stacked, rtol=1e-12, hermitian=True))


# Verdicts ----------------------------------------------------------------------------------------


def _panel_verdict(table: pd.DataFrame, guesses: _Guesses) -> Verdict:
    by_noise = table.sort_values("sigma")
    falling = ("epsilon", "log capacity", "ReRo", "ReRo of a near miss", "prior-free tail")
    monotone = all(by_noise[name].is_monotonic_decreasing for name in falling)
    grows = by_noise["RMSE"].iloc[-1] > guesses.near > by_noise["RMSE"].iloc[0]
    return check(
        "beyond/one_scale",
        monotone and bool(grows),
        "every notion falls as the noise grows, and over the range shown the best attack goes "
        "from better than the nearest other record to worse",
        ours=f"RMSE {by_noise['RMSE'].iloc[0]:.2f} to {by_noise['RMSE'].iloc[-1]:.2f}, nearest "
        f"neighbour {guesses.near:.2f}, mean image {guesses.mean:.2f}",
    )


def _bounds_verdict(table: pd.DataFrame, stand_in: bool) -> Verdict:
    """O-051, bound by bound: every row must hold."""
    sure = STANDARD_ERRORS
    n = 1 / table.attrs["guess"]
    aware = np.maximum(
        table["prior-aware"] - sure * table["prior-aware error"],
        table["prior-aware, sum"] - sure * table["prior-aware, sum error"],
    )
    small = table[table["Cramer-Rao"] <= SMALL]
    room = sure * small["least squares over bound error"]
    apart = (table["analytic near"] - table["analytic near, exact"]).abs()
    kept = {
        "ReRo (candidates)": aware <= table["ReRo"],
        "ReRo (near misses)": table["near, surely"] <= table["ReRo of a near miss"],
        "epsilon": aware <= np.exp(np.minimum(table["epsilon"], 50.0)) / n + table.attrs["delta"],
        "Bayes' capacity": np.log(np.maximum(aware, 1e-12) * n) <= table["log capacity"],
        "prior-free tail": table["analytic near"] - sure * table["analytic near error"]
        <= table["prior-free tail"],
        "the tail's own law": apart <= sure * table["analytic near error"] + 1e-3,
        "expected error of the analytic attack": (
            table["analytic RMSE"] - table["analytic, expected"]
        ).abs()
        <= sure * table["analytic RMSE error"],
        "Cramer-Rao": small["least squares over bound"] >= 1 - room,
    }
    ratio = small["least squares over bound"]
    gap = (table["ReRo"] - table["prior-aware"]).max()
    return check(
        "O-051",
        all(bool(held.all()) for held in kept.values()) and len(small) > 0,
        "at every noise level every bound holds for the attack beside it: ReRo, epsilon and "
        "Bayes' capacity for the prior-aware attack, ReRo of a near miss for gradient matching, "
        "the prior-free tail for the analytic attack, Cramer-Rao for least squares at small noise",
        ours=", ".join(f"{name} {int(held.sum())} of {len(held)}" for name, held in kept.items())
        + f"; least squares over Cramer-Rao {ratio.min():.1f} to {ratio.max():.1f}; ReRo is up to "
        f"{gap:.1f} above the prior-aware attack",
        tolerance=f"{sure:g} standard errors",
        stand_in=stand_in,
    )


def _defence_verdict(defences: pd.DataFrame, stand_in: bool) -> Verdict:
    whole = defences[defences["defence"].str.startswith(("none", "clipping", "local"))]
    partial = defences.drop(whole.index)
    return check(
        "O-052",
        bool((defences["right candidate"] == 1).all())
        and bool((whole["values read"] == 1).all())
        and bool((defences["largest error of those"] < 1e-9).all())
        and bool((whole["Cramer-Rao"] == 0).all()),
        "defences without noise have no finite epsilon and leave the prior-aware attack always "
        "right, so that ReRo is one; after clipping and local steps the record is read off "
        "exactly; pruning and entry dropout take values away, and those left are read exactly",
        ours="values read and RMSE of the whole: "
        + ", ".join(
            f"{row['values read']:.0%} and {row['RMSE']:.2g} ({row['defence']})"
            for row in partial.to_dict("records")
        ),
        stand_in=stand_in,
    )
