"""Our own: one run of DP-SGD as each of the five papers sees it, and what an epsilon means.

A small classifier is trained by DP-SGD with Poisson sampling. Every bound of this study that
speaks of such a run is computed for it and held against an attack on the trained models; the
report of :func:`reconrisk.risk.assess` has to say the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats
from scipy.spatial.distance import cdist

from companion.experiments.tools import (
    as_numpy,
    attack_repeatedly,
    data_folder,
    mean_and_error,
    run_tasks,
)
from companion.papers.beyond.old_one_scale import clipped_gradient
from companion.papers.beyond.two_layer_attacks import (
    attack_case,
    bound_case,
    moments_case,
)
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import STANDARD_ERRORS, check
from reconrisk import DPSGD, Enclosure, bounds, datasets, metrics, privacy, risk
from reconrisk.attacks import (
    StepScoresObserver,
    baselines,
    likelihood_score,
    linearised_variance,
    match_gradients,
    prior_aware_attack,
    success_by_prior_size,
    success_interval,
)
from reconrisk.datasets import LabelledImages
from reconrisk.mechanisms import sample_vmf
from reconrisk.models import Classifier
from reconrisk.training import Weights, accuracy, record_trajectories, train_many

__all__ = ["epsilon_of_level", "membership_scores"]

#: the mean squared error that counts as a near miss, as a share of the nearest neighbour's
NEAR = 0.25
#: chance at which a count may contradict its bound although the bound holds
RARELY = 1e-6


# The run -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scene:
    """The data, the network and the run that all eyes look at."""

    context: Context
    images: LabelledImages
    test: LabelledImages
    order: np.ndarray
    classifier: Classifier
    run: DPSGD

    def records(self, which: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Pixels and labels of records by their place in the drawn order."""
        chosen, device = self.order[which], self.context.device
        return (
            torch.as_tensor(self.images.inputs[chosen], device=device),
            torch.as_tensor(self.images.labels[chosen], device=device),
        )

    @property
    def known(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.records(slice(self.context.settings.known))

    @property
    def pool(self) -> tuple[torch.Tensor, torch.Tensor]:
        p = self.context.settings
        return self.records(slice(p.known, p.known + p.pool))

    @property
    def training(self) -> dict[str, Any]:
        """What every training of this scene shares."""
        return {"learning_rate": self.context.settings.training_rate}


def _scene(context: Context) -> _Scene:
    p = context.settings
    root = data_folder(context, p.data) or None
    images = datasets.classified(p.data, root, "train")
    sigma = privacy.noise_for_epsilon(
        p.epsilon, p.delta, sampling_rate=p.sampling_rate, steps=p.steps
    )
    run = DPSGD(sigma, p.sampling_rate, p.steps, p.max_grad_norm)
    order = context.rng("records").permutation(len(images))
    classifier = Classifier(images.dimension, p.hidden, images.classes)
    return _Scene(
        context, images, datasets.classified(p.data, root, "test"), order, classifier, run
    )


@dataclass(frozen=True)
class _Guesses:
    """What the data tell without any gradient."""

    mean: float
    near: float
    threshold: float
    kappa: float

    @classmethod
    def of(cls, pool: np.ndarray) -> _Guesses:
        nearest = float(baselines.nearest_neighbour_mse(pool).mean())
        distances = cdist(pool, pool) / math.sqrt(pool.shape[1])
        kappa = bounds.prior_success_ball_any_centre(
            0.5 * (distances + distances.T), math.sqrt(NEAR * nearest)
        ).upper
        mean = math.sqrt(baselines.mean_record_mse(pool))
        return cls(mean, math.sqrt(nearest), NEAR * nearest, kappa)


# One row for each question -----------------------------------------------------------------------


def _row(
    paper: str,
    knows: str,
    question: str,
    bound: float,
    kind: str,
    attack: str,
    measured: float,
    error: float,
) -> dict[str, Any]:
    """A bound and the attack it binds; ``kind``: at most, at least, equal, or no attack (-)."""
    slack = STANDARD_ERRORS * error
    held = {
        "at most": measured - slack <= bound,
        "at least": measured + slack >= bound,
        "equal": abs(measured - bound) <= slack,
        "-": True,
    }[kind]
    return {
        "paper": paper,
        "the attacker knows": knows,
        "question": question,
        "bound": bound,
        "holds": kind,
        "attack": attack,
        "measured": measured,
        "standard error": error,
        "held": bool(held),
    }


def _share(hits: np.ndarray) -> tuple[float, float]:
    """A share of independent trials and its standard error, at least that of one hit."""
    values = np.asarray(hits, dtype=float)
    p, n = float(values.mean()), len(values)
    return p, math.sqrt(max(p * (1 - p), 1 / n) / n)


def membership_scores(scene: _Scene, present: bool, trials: int) -> np.ndarray:
    """Log-likelihood ratios of the membership test on trained models, one model for each.

    All other records are known. Where the record is absent another one is in its place, which is
    known as well.

    Parameters
    ----------
    scene : _Scene
        What is trained, and the run.
    present : bool
        Whether the tested record is in the data.
    trials : int

    Returns
    -------
    ndarray, shape (trials,)
    """
    inputs, labels = scene.pool
    tested, other = (inputs[0], labels[0]), (inputs[1], labels[1])
    observer = StepScoresObserver(
        tested[0][None], tested[1][None], scene.run, scene.classifier.classes
    )

    def look(step: int, weights: Weights, residual: Weights, takes_part: torch.Tensor) -> None:
        if not present:  # the other record's gradient is known, and subtracted
            own = clipped_gradient(weights, *other, scene.run.max_grad_norm)
            part = takes_part.to(torch.float32)
            residual = {
                name: r - part.reshape(-1, *(1,) * (r.ndim - 1)) * own[name]
                for name, r in residual.items()
            }
        observer(step, weights, residual, takes_part)

    target = tested if present else other
    train_many(
        scene.classifier,
        scene.run,
        *scene.known,
        target[0].expand(trials, -1),
        target[1].expand(trials),
        generator=scene.context.generator("membership", present),
        observe=look,
        **scene.training,
    )
    return as_numpy(likelihood_score(observer.steps(), scene.run))[:, 0]


def _membership(scene: _Scene) -> list[dict[str, Any]]:
    p = scene.context.settings
    inside, outside = (membership_scores(scene, present, p.tests) for present in (True, False))
    (caught, e1), (false, e2) = _share(inside > 0), _share(outside > 0)
    advantage = privacy.delta(scene.run, 0.0).upper
    epsilon = privacy.epsilon(scene.run, p.delta).upper
    everything = "all but whether the record is there"
    return [
        _row("all", everything, f"epsilon at delta = {p.delta:g}", epsilon, "-", "", 0.0, 0.0),
        _row(
            "B, C", everything, "advantage of a membership test", advantage, "at most",
            "likelihood ratio", caught - false, math.hypot(e1, e2),
        ),
    ]  # fmt: skip


def _matching(scene: _Scene) -> list[dict[str, Any]]:
    p = scene.context.settings
    largest = max(p.prior_sizes)
    guesses = prior_aware_attack(
        scene.classifier,
        scene.run,
        *scene.known,
        *scene.pool,
        prior_size=largest,
        trials=p.trials,
        generator=scene.context.generator("prior-aware"),
        **scene.training,
    )
    right = as_numpy(success_by_prior_size(guesses, "likelihood", p.prior_sizes))
    capacity, rows = _capacity(scene), []
    for column, n in enumerate(p.prior_sizes):
        found = _share(right[:, column])
        knows = f"all but which of {n} candidates it is"
        best = float(bounds.bayes_success_subsampled(scene.run, n))
        rows += [
            _row("C", knows, f"success with {n} candidates", bounds.rero(scene.run, 1 / n).upper,
                 "at most", "prior-aware", *found),
            _row("ours", knows, "the same, orthogonal gradients", best, "-", "", 0.0, 0.0),
        ]  # fmt: skip
        if column != 1:
            continue
        fano = float(bounds.fano_success(_information(scene, n), n))
        closed = bounds.rero_gaussian(scene.run.noise_multiplier, 1 / n, steps=scene.run.steps)
        gain = math.log(max(found[0], 1e-12) * n)
        rows += [
            _row("C", knows, "the same, by Fano's inequality", fano, "at most", "prior-aware",
                 *found),
            _row("B", knows, "the same, without the credit for sampling", float(closed),
                 "at most", "prior-aware", *found),
            _row("D", knows, "log gain over a guess, by capacity", capacity, "at most",
                 "prior-aware", gain, 0.0),
        ]  # fmt: skip
    return rows


def _information(scene: _Scene, n: int) -> float:
    """Of n candidates at most two clipping norms apart, without the credit for sampling."""
    return float(
        bounds.mutual_information_bound(scene.run.noise_multiplier, n, 2.0, scene.run.steps)
    )


def _capacity(scene: _Scene) -> float:
    size = scene.classifier.parameter_count
    one = float(bounds.bayes_capacity_gaussian(size, scene.run.noise_multiplier, 1.0))
    return scene.run.steps * one


def _parts_taken(run: DPSGD) -> tuple[np.ndarray, np.ndarray]:
    """In how many steps a record takes part, if in any, and with what probability."""
    counts = np.arange(1, run.steps + 1)
    weights = stats.binom.pmf(counts, run.steps, run.sampling_rate)
    kept = weights > 1e-18
    return counts[kept], weights[kept] / weights[kept].sum()


def _expected(run: DPSGD, value: Callable[[np.ndarray], Any]) -> float:
    """Mean of a value of the number of steps over its law."""
    counts, weights = _parts_taken(run)
    return float(weights @ np.asarray(value(counts), dtype=float))


def _analytic(scene: _Scene, guesses: _Guesses) -> list[dict[str, Any]]:
    """Paper A's attack: the server's own layer, steps averaged in which the record took part."""
    p, run = scene.context.settings, scene.run
    sigma, n = run.noise_multiplier, scene.classifier.inputs
    measured: dict[str, list[np.ndarray]] = {k: [] for k in ("MSE", "PSNR", "NCC", "shrunken")}
    exact: dict[str, list[float]] = {k: [] for k in (*measured, "tail")}
    for place, record in enumerate(as_numpy(scene.pool[0][: p.attacked])):
        norm, contrast = float(np.linalg.norm(record)), bounds.contrast_of(record)
        rebuilt, factor = _averaged(scene, record, place)
        truth = np.broadcast_to(record, rebuilt.shape)
        measured["MSE"].append(_array(metrics.mse(truth, rebuilt)))
        measured["PSNR"].append(_array(metrics.psnr(truth, rebuilt, data_range=1.0)))
        measured["NCC"].append(_array(metrics.ncc(truth, rebuilt)))
        measured["shrunken"].append(_array(metrics.mse(truth, factor[:, None] * rebuilt)))
        of_steps: dict[str, Callable[[np.ndarray], Any]] = {
            "MSE": lambda k: bounds.expected_mse(sigma, norm, k),  # noqa: B023
            "PSNR": lambda k: bounds.expected_psnr(n, sigma, norm, 1.0, k),  # noqa: B023
            "NCC": lambda k: bounds.expected_ncc(n, sigma, contrast, k),  # noqa: B023
            "shrunken": lambda k: bounds.expected_mse_shrunk(n, sigma, norm, k),  # noqa: B023
            "tail": lambda k: bounds.mse_tail(guesses.threshold, n, sigma, norm, k),  # noqa: B023
        }
        for name, value in of_steps.items():
            exact[name].append(_expected(run, value))
    knows = "no prior; its own layer; the steps"
    found = {name: _mean_of_records(parts) for name, parts in measured.items()}
    rows = [
        _row("A, B", knows, f"mean {name}", float(np.mean(exact[name])), "equal", "analytic",
             *found[name])
        for name in ("MSE", "PSNR", "NCC")
    ]  # fmt: skip
    near = np.concatenate(measured["MSE"]) <= guesses.threshold
    least = _expected(run, lambda k: bounds.mse_lower_bound(sigma, k))
    return [
        *rows,
        _row("A", knows, "probability of a near miss", float(np.mean(exact["tail"])), "equal",
             "analytic", *_share(near)),
        _row("ours", knows, "mean MSE, shrunken", float(np.mean(exact["shrunken"])), "equal",
             "shrunken", *found["shrunken"]),
        _row("C", "no prior; the steps", "least MSE of unbiased attacks (Guo et al.)", least,
             "at least", "analytic", *found["MSE"]),
    ]  # fmt: skip


def _averaged(scene: _Scene, record: np.ndarray, place: int) -> tuple[np.ndarray, np.ndarray]:
    """Reconstructions from all steps with the record, and the shrinking factor of each."""
    p, run = scene.context.settings, scene.run
    counts, weights = _parts_taken(run)
    drawn = scene.context.rng("parts", place).choice(counts, size=p.repeats, p=weights)
    parts, factors = [], []
    for count, times in zip(*np.unique(drawn, return_counts=True), strict=True):
        # the mean of k steps' reconstructions is one with k times less variance
        sigma = run.noise_multiplier / math.sqrt(count)
        key = ("analytic", place, int(count))
        parts.append(
            attack_repeatedly(scene.context, record, sigma, run.max_grad_norm, times, key=key)
        )
        factor = bounds.shrinkage_factor(record.size, run.noise_multiplier, count)
        factors.append(np.full(times, float(factor)))
    return np.concatenate(parts), np.concatenate(factors)


def _array(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=float)


def _mean_of_records(parts: Iterable[np.ndarray]) -> tuple[float, float]:
    """Mean over records and repeats, and its error given the records."""
    values = np.asarray(list(parts))
    error = math.sqrt(float(np.mean(values.var(axis=1, ddof=1))) / values.size)
    return float(values.mean()), error


def _network(scene: _Scene, guesses: _Guesses) -> tuple[list[dict[str, Any]], float, float]:
    """Attackers of the honest network: gradient matching, and the bound of Cramer and Rao."""
    p, run = scene.context.settings, scene.run
    inputs, labels = (part[: p.attacked] for part in scene.pool)
    stored = record_trajectories(
        scene.classifier,
        run,
        *scene.known,
        inputs,
        labels,
        generator=scene.context.generator("trajectories"),
        **scene.training,
    )
    errors, variances = [], []
    for k in range(len(inputs)):
        # the attacker is told in which steps the record took part
        steps = torch.nonzero(stored.takes_part[:, k])[:, 0]
        if not len(steps):
            errors.append(guesses.mean**2)
            continue
        weights, seen = (
            {name: w[steps, k : k + 1] for name, w in part.items()}
            for part in (stored.weights, stored.residuals)
        )
        one = slice(k, k + 1)
        # these steps alone are a run without sampling
        taken = DPSGD(run.noise_multiplier, steps=len(steps), max_grad_norm=run.max_grad_norm)
        found = match_gradients(
            weights, seen, taken, labels[one], generator=scene.context.generator("matching", k),
            iterations=p.iterations, learning_rate=0.05,
        )  # fmt: skip
        errors.append(float((found.inputs - inputs[one]).square().mean()))
        variances.append(
            float(linearised_variance(weights, inputs[one], labels[one], taken).mean())
        )
    near = np.asarray(errors) <= guesses.threshold
    surely = success_interval(int(near.sum()), len(near), 1 - 2 * RARELY)[0]
    mean, error = mean_and_error(np.asarray(errors))
    steps = "no prior; the network; the steps"
    rows = [
        _row("C", "all but the record, and its distribution", "probability of a near miss",
             bounds.rero(run, guesses.kappa).upper, "at most", "gradient matching", surely, 0.0),
        _row("E", steps, "least RMSE of unbiased attacks (Cramer, Rao)",
             math.sqrt(float(np.median(variances))), "-", "", 0.0, 0.0),
        _row("C, E", steps, "RMSE; the mean picture has the value on the left", guesses.mean, "-",
             "gradient matching", math.sqrt(mean), error / (2 * math.sqrt(mean))),
    ]  # fmt: skip
    right = float(
        accuracy(
            stored.final,
            torch.as_tensor(scene.test.inputs, device=scene.context.device),
            torch.as_tensor(scene.test.labels, device=scene.context.device),
        ).mean()
    )
    return rows, right, math.sqrt(mean)


def _wide(scene: _Scene) -> list[dict[str, Any]]:
    """Paper E's two-layer network: a batch of digits, with and without the run's noise."""
    p = scene.context.settings
    task = {"records": "digits", "dimension": 64, "count": p.wide_batch, "width": p.wide_width}
    noise = scene.run.noise_multiplier * p.max_grad_norm
    release = {"max_grad_norm": p.max_grad_norm, "noise_std": noise}
    task["seed"] = scene.context.seed_of("wide") >> 1
    (plain,) = _run_one(scene.context, attack_case, task)
    private: dict[str, Any] = {}
    for case in (bound_case, moments_case):
        private |= _run_one(scene.context, case, task | {"release": release})[0]
    knows = "the network; one batch's gradient"
    return [
        _row("E", knows, "distance of unit records, no noise", plain["floor"], "at least",
             "tensor attack", plain["tensor"], 0.0),
        _row("E", knows, "the same, refined", plain["floor"], "at least",
             "least squares", plain["least squares"], 0.0),
        _row("E", knows, "the same, this run's clipping and noise", private["floor"], "-",
             "tensor attack", private["tensor"], 0.0),
    ]  # fmt: skip


def _run_one(context: Context, case: Callable[..., Any], task: dict[str, Any]) -> list[Any]:
    return run_tasks(context, case, [task], f"companion-one_run-{case.__name__}", "networks")


def _turned(scene: _Scene) -> list[dict[str, Any]]:
    """Paper D's mechanism at the concentration of the same certified epsilon."""
    p, run = scene.context.settings, scene.run
    size = scene.classifier.parameter_count
    kappa = math.sqrt(size) / (2 * run.noise_multiplier)
    how = {"sampling_rate": run.sampling_rate, "steps": run.steps}
    n = p.prior_sizes[0]
    rng = scene.context.rng("turned")
    direction = np.zeros(size)
    direction[0] = 1.0
    drawn = sample_vmf(direction, kappa, rng, size=p.draws)[:, 0]
    noisy = direction + run.noise_multiplier * rng.standard_normal((p.draws, size))
    cosines = noisy[:, 0] / np.linalg.norm(noisy, axis=1)
    knows = "all but which of the candidates it is"
    return [
        _row("D", "all but whether the record is there",
             f"epsilon of VMF noise, concentration {kappa:.3g}",
             privacy.vmf_epsilon(kappa, size, p.delta, **how).upper, "-", "", 0.0, 0.0),
        _row("D", knows, f"success with {n} candidates under it",
             bounds.rero_vmf(kappa, size, 1 / n, **how).upper, "-", "", 0.0, 0.0),
        _row("D", "a unit gradient's direction", "mean cosine, VMF noise",
             float(privacy.vmf_mean_cosine(size, kappa)), "equal", "what is released",
             *mean_and_error(drawn)),
        _row("D", "a unit gradient's direction", "mean cosine, Gaussian noise",
             float(bounds.direction_cosine_gaussian(size, run.noise_multiplier)), "equal",
             "what is released", *mean_and_error(cosines)),
        _row("D", "any prior, any gain", "log capacity of VMF noise",
             run.steps * float(bounds.bayes_capacity_vmf(size, kappa)), "-", "", 0.0, 0.0),
    ]  # fmt: skip


@computes("beyond/one_run", "O-058")
def one_run(context: Context) -> Result:
    """The same training run as each paper sees it, and the report on it."""
    p = context.settings
    scene = _scene(context)
    guesses = _Guesses.of(as_numpy(scene.pool[0]))
    network, right, matched = _network(scene, guesses)
    rows = [
        *_membership(scene), *_matching(scene), *_analytic(scene, guesses), *network,
        *_turned(scene), *_wide(scene),
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    agreement = _against_report(scene, guesses)
    judged = table[table["holds"] != "-"]
    same = int(agreement["agrees"].sum())
    stand_in = p.data != "MNIST"
    learnt = right > 3 / scene.images.classes
    return Result(
        "beyond/one_run",
        [
            check(
                "beyond/one_run",
                bool(judged["held"].all()) and learnt,
                "the run trains a classifier, and on it every bound of the five papers holds for "
                "the attack beside it",
                ours=f"{int(judged['held'].sum())} of {len(judged)} bounds and exact values hold",
                tolerance=f"{STANDARD_ERRORS:g} standard errors",
                stand_in=stand_in,
            ),
            check(
                "O-058",
                same == len(agreement) and len(agreement) >= 10,
                "the risk report says of this run what is computed here one by one",
                ours=f"{same} of {len(agreement)} values agree"
                + "".join(f"; not {key}" for key in agreement["entry"][~agreement["agrees"]]),
                tolerance="1e-9, or within both enclosures",
                stand_in=stand_in,
            ),
        ],
        {
            "five answers": _shown(table),
            "rows": table,
            "report": agreement,
            "guesses": pd.DataFrame(
                {
                    "guess": ["mean picture", "nearest neighbour", "gradient matching"],
                    "RMSE": [guesses.mean, guesses.near, matched],
                }
            ),
            "accuracy": pd.DataFrame({"test accuracy": [right]}),
        },
        shown=("five answers",),
        ran=f"{p.data}, {scene.classifier.inputs}-{p.hidden}-{scene.classifier.classes} network of "
        f"{scene.classifier.parameter_count:,} weights, {p.known + 1:,} records, q = "
        f"{p.sampling_rate:g}, T = {p.steps}, C = {p.max_grad_norm:g}, sigma = "
        f"{scene.run.noise_multiplier:.3f}; {p.trials} models for the prior-aware attack, twice "
        f"{p.tests} for the membership test, {p.attacked} records attacked without a prior.",
    )


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table with as many digits as a reader wants."""
    kinds = {"at most": "≤", "at least": "≥", "equal": "=", "-": ""}
    return pd.DataFrame(
        {
            "paper": table["paper"],
            "the attacker knows": table["the attacker knows"],
            "question": table["question"],
            "bound": [f"{v:.3g}" for v in table["bound"]],
            "attack": table["attack"],
            "measured": [
                f"{kinds[row['holds']]} {row['measured']:.3g}".strip() if row["attack"] else ""
                for row in table.to_dict("records")
            ],
        }
    )


# The report --------------------------------------------------------------------------------------


def _against_report(scene: _Scene, guesses: _Guesses) -> pd.DataFrame:
    """What the report says beside what the bounds say, called one by one."""
    p, run = scene.context.settings, scene.run
    pool = as_numpy(scene.pool[0])
    weakest = float(np.linalg.norm(pool, axis=1).min())
    contrast = max(float(bounds.contrast_of(record)) for record in pool)
    report = risk.assess(
        risk.training_run(
            noise_multiplier=run.noise_multiplier,
            sampling_rate=run.sampling_rate,
            steps=run.steps,
            max_grad_norm=run.max_grad_norm,
            parameters=scene.classifier.parameter_count,
            delta=p.delta,
        ),
        risk.record(dimension=pool.shape[1], data_range=1.0, data_norm=weakest, contrast=contrast),
        risk.questions(prior_sizes=p.prior_sizes, mse=(guesses.threshold,)),
    )
    return _compared(report, _one_by_one(scene, guesses, weakest, contrast))


def _one_by_one(
    scene: _Scene, guesses: _Guesses, norm: float, contrast: float
) -> dict[str, float | Enclosure]:
    """What the bounds say, by the report's own names for it."""
    p, run = scene.context.settings, scene.run
    n, sigma = scene.classifier.inputs, run.noise_multiplier
    sampled = (run.steps, run.sampling_rate)
    near = f"[mse={guesses.threshold!r}]"
    values: dict[str, float | Enclosure] = {
        "epsilon": privacy.epsilon(run, p.delta),
        "membership_advantage": privacy.delta(run, 0.0),
        "power[false_positive_rate=0.01]": bounds.rero(run, 0.01),
        "mse_one_step": float(bounds.expected_mse(sigma, norm)),
        "mse": float(bounds.expected_mse_sampled(sigma, norm, *sampled)),
        f"mse_tail{near}": float(
            bounds.mse_tail_sampled(guesses.threshold, n, sigma, norm, *sampled)
        ),
        "psnr": _expected(run, lambda k: bounds.expected_psnr(n, sigma, norm, 1.0, k)),
        # zero where the record never takes part
        "ncc": -math.expm1(run.steps * math.log1p(-run.sampling_rate))
        * _expected(run, lambda k: bounds.expected_ncc(n, sigma, contrast, k)),
        "mse_unbiased": float(bounds.mse_lower_bound(sigma, run.steps)),
        "capacity_run": _capacity(scene),
    }
    for count in p.prior_sizes:
        at = f"[prior_size={count}]"
        values[f"rero{at}"] = bounds.rero(run, 1 / count)
        values[f"bayes_success{at}"] = float(bounds.bayes_success_subsampled(run, count))
        values[f"mutual_information{at}"] = _information(scene, count)
        values[f"fano{at}"] = float(bounds.fano_success(_information(scene, count), count))
    return values


def _compared(report: Any, values: Mapping[str, float | Enclosure]) -> pd.DataFrame:
    rows = []
    for key, value in values.items():
        entry = report[key]
        if isinstance(value, Enclosure):
            agrees = entry.lower <= value.upper and value.lower <= entry.upper
            said, ours = entry.upper, value.upper
        else:
            said, ours = entry.value, float(value)
            agrees = math.isclose(said, ours, rel_tol=1e-9)
        rows.append({"entry": key, "report": said, "here": ours, "agrees": bool(agrees)})
    return pd.DataFrame(rows)


# What an epsilon means ---------------------------------------------------------------------------

#: notion -> whether it grows with the risk
_READINGS = {
    "membership advantage": True,
    "2 candidates": True,
    "10 candidates": True,
    "1,000 candidates": True,
    "near miss": True,
    "RMSE (A)": False,
    "NCC (A)": True,
}


def _readings(run: DPSGD, record: Mapping[str, float]) -> dict[str, float]:
    """All notions at one noise."""
    usual = max(1, round(run.sampling_rate * run.steps))
    sigma, n, norm = run.noise_multiplier, int(record["dimension"]), record["norm"]
    return {
        "membership advantage": privacy.delta(run, 0.0).upper,
        "2 candidates": bounds.rero(run, 0.5).upper,
        "10 candidates": bounds.rero(run, 0.1).upper,
        "1,000 candidates": bounds.rero(run, 1e-3).upper,
        "near miss": bounds.rero(run, record["kappa"]).upper,
        "RMSE (A)": math.sqrt(float(bounds.expected_mse_shrunk(n, sigma, norm, usual))),
        "PSNR (A)": float(bounds.expected_psnr(n, sigma, norm, 1.0, usual)),
        "NCC (A)": float(bounds.expected_ncc(n, sigma, record["contrast"], usual)),
        "RMSE (Guo et al.)": math.sqrt(float(bounds.mse_lower_bound(sigma, usual))),
        "log capacity": run.steps
        * float(bounds.bayes_capacity_gaussian(int(record["parameters"]), sigma, 1.0)),
    }


def epsilon_of_level(epsilons: np.ndarray, values: np.ndarray, level: float) -> float:
    """Return the epsilon at which a monotone notion reaches a level, by interpolation of its log.

    Parameters
    ----------
    epsilons : ndarray, shape (k,)
        Increasing.
    values : ndarray, shape (k,)
    level : float

    Returns
    -------
    float
        Infinite if the level is not reached.
    """
    gap = np.asarray(values, dtype=float) - level
    change = np.flatnonzero(np.sign(gap[:-1]) != np.sign(gap[1:]))
    if not len(change):
        return math.inf
    i, x = int(change[0]), np.log(epsilons)
    return float(np.exp(x[i] - gap[i] * (x[i + 1] - x[i]) / (gap[i + 1] - gap[i])))


@computes("beyond/epsilon_means", "O-060")
def epsilon_means(context: Context) -> Result:
    """The other notions at the noise of each epsilon, for the same sampling rate and steps."""
    p = context.settings
    images = datasets.classified(p.data, data_folder(context, p.data) or None, "train")
    chosen = context.rng("records").permutation(len(images))[: p.pool]
    pool = images.inputs[chosen].astype(float)
    guesses = _Guesses.of(pool)
    norms = np.linalg.norm(pool, axis=1)
    middle = pool[int(np.argsort(norms)[len(norms) // 2])]
    record = {
        "dimension": pool.shape[1],
        "norm": float(np.linalg.norm(middle)),
        "contrast": float(bounds.contrast_of(middle)),
        "kappa": guesses.kappa,
        "parameters": Classifier(pool.shape[1], p.hidden, images.classes).parameter_count,
    }
    rows = []
    for epsilon in p.epsilons:
        sigma = privacy.noise_for_epsilon(
            epsilon, p.delta, sampling_rate=p.sampling_rate, steps=p.steps
        )
        run = DPSGD(sigma, p.sampling_rate, p.steps)
        rows.append({"epsilon": epsilon, "sigma": sigma} | _readings(run, record))
    table = pd.DataFrame(rows)
    monotone = all(
        (table[name].is_monotonic_increasing if grows else table[name].is_monotonic_decreasing)
        for name, grows in _READINGS.items()
    )
    x = table["epsilon"].to_numpy()
    halfway = {"2 candidates": 0.5, "10 candidates": 0.1, "1,000 candidates": 1e-3}
    # an advantage of one half over the guess
    levels = {name: 0.5 * (1 + kappa) for name, kappa in halfway.items()} | {
        "near miss": 0.5 * (1 + guesses.kappa),
        # what the mean picture has, without any gradient
        "RMSE (A)": guesses.mean,
    }
    found = {k: epsilon_of_level(x, table[k].to_numpy(), v) for k, v in levels.items()}
    order = list(found.values())
    return Result(
        "beyond/epsilon_means",
        [
            check(
                "beyond/epsilon_means",
                monotone,
                "with the sampling rate and the steps of the run, every notion falls with epsilon",
                ours=f"{len(_READINGS)} notions at {len(table)} epsilons",
            ),
            check(
                "O-060",
                order[0] < order[1] < order[2] < order[4] and order[3] < order[4],
                "the epsilon at which a notion allows an advantage of one half over the guess "
                "grows with the number of candidates, and is largest where a reconstruction "
                "without a prior has to be better than the mean picture",
                ours=", ".join(f"{name} at epsilon {value:.2g}" for name, value in found.items()),
            ),
        ],
        {
            "what an epsilon means": _rounded(table),
            "values": table,
            "levels": pd.DataFrame({"notion": list(found), "epsilon": order}),
        },
        shown=("what an epsilon means",),
        ran=f"closed forms and certified bounds at q = {p.sampling_rate:g}, T = {p.steps}, delta = "
        f"{p.delta:g}; records of {p.data}, one of median norm.",
    )


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    return table.map(lambda value: f"{value:.3g}")


# Where the notions order runs differently --------------------------------------------------------


def _notions(run: DPSGD, delta: float, dimension: int, parameters: int) -> dict[str, float]:
    """Each notion of one run, larger where it sees more risk."""
    usual = max(1.0, run.sampling_rate * run.steps)
    sigma = run.noise_multiplier
    return {
        "epsilon": privacy.epsilon(run, delta).upper,
        "advantage": privacy.delta(run, 0.0).upper,
        "ReRo, 10": bounds.rero(run, 0.1).upper,
        "ReRo, 1e-6": bounds.rero(run, 1e-6).upper,
        "prior-free": usual / sigma**2,
        "no sampling": run.steps / sigma**2,
        "capacity": run.steps * float(bounds.bayes_capacity_gaussian(parameters, sigma, 1.0)),
    }


@computes("beyond/orderings", "O-059")
def orderings(context: Context) -> Result:
    """Runs of DP-SGD ordered by each notion, and where two notions disagree."""
    p = context.settings
    rows = []
    for (q, steps), epsilon in itertools.product(zip(p.rates, p.steps, strict=True), p.epsilons):
        sigma = privacy.noise_for_epsilon(epsilon, p.delta, sampling_rate=q, steps=steps)
        # a little apart, so that no two runs have one epsilon and its order is an order
        for factor in (1.0, p.apart):
            run = DPSGD(factor * sigma, q, steps)
            rows.append(
                {"q": q, "T": steps, "sigma": run.noise_multiplier}
                | _notions(run, p.delta, p.dimension, p.parameters)
            )
    table = pd.DataFrame(rows)
    names = list(table.columns[3:])
    tau = pd.DataFrame(
        [[float(stats.kendalltau(table[a], table[b]).statistic) for b in names] for a in names],
        index=names,
        columns=names,
    )
    alike = all(
        own.sort_values("sigma")[names].apply(lambda c: c.is_monotonic_decreasing).all()
        for _, own in table.groupby(["q", "T"])
    )
    reversed_pairs = [(a, b, _reversal(table, a, b)) for a, b in itertools.combinations(names, 2)]
    told = [(a, b, r) for a, b, r in reversed_pairs if r is not None]
    lowest = min(float(tau.loc[a, b]) for a, b in itertools.combinations(names, 2))
    return Result(
        "beyond/orderings",
        [
            check(
                "beyond/orderings",
                alike,
                "all notions order runs alike that differ in the noise only",
                ours=f"{len(names)} notions, {len(table)} runs in {len(p.rates)} families",
            ),
            check(
                "O-059",
                len(told) >= len(reversed_pairs) - 1
                and any({a, b} == {"epsilon", "prior-free"} for a, b, _ in told),
                "across sampling rates and numbers of steps any two notions, but for one pair of "
                "them at most, order some runs oppositely: the run with the larger value of the "
                "first has the smaller value of the second",
                ours=f"{len(told)} of {len(reversed_pairs)} pairs of notions; lowest rank "
                f"correlation {lowest:.2f}",
            ),
        ],
        {
            "runs": table,
            "agreement": tau.reset_index(names="notion"),
            "reversals": pd.DataFrame(
                [{"first": a, "second": b, "runs": r} for a, b, r in told],
                columns=["first", "second", "runs"],
            ),
        },
        ran=f"{len(table)} runs of DP-SGD: q and T of {len(p.rates)} families, noise tuned to "
        f"{len(p.epsilons)} epsilons at delta = {p.delta:g}, and {p.apart:g} times that; N = "
        f"{p.dimension}, p = {p.parameters:,}.",
    )


def _reversal(table: pd.DataFrame, first: str, second: str) -> str | None:
    """Two runs that two notions order oppositely by at least one per cent each, in words."""
    a, b = table[first].to_numpy(), table[second].to_numpy()
    room = 1.01
    worse = (a[:, None] > room * a) & (room * b[:, None] < b)
    if not worse.any():
        return None
    # the pair with the largest product of the two gaps
    with np.errstate(divide="ignore"):
        size = np.where(worse, np.log(a[:, None] / a) * np.log(b / b[:, None]), 0.0)
    i, j = np.unravel_index(int(size.argmax()), size.shape)
    return " against ".join(
        f"q = {table['q'][k]:g}, T = {table['T'][k]:,}, sigma = {table['sigma'][k]:.2f}"
        for k in (i, j)
    )
