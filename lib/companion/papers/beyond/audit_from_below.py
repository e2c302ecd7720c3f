"""Bounds from below: what the guesses about trained runs rule out, beside what is certified."""

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy import stats

from companion.exhibit import *
from companion.papers.beyond.audited_runs import (
    CLASSES,
    Canaries,
    Scored,
    train,
    train_many,
    train_opacus,
)
from reconrisk import DPSGD, bounds, datasets, privacy, training

_OURS = "our own exhibit"
_MUS = (0.5, 1.0, 2.0, 4.0)
PARAMETERS = {
    "dataset": Parameter("str", "MNIST-5000", "MNIST", _OURS, "labelled images"),
    "images": Parameter("int", 1000, 4000, _OURS, "images that are trained on", low=10),
    "canaries": Parameter("int", 2000, 8000, _OURS, "in the data of one run", low=100),
    "steps": Parameter("int", 10, 10, _OURS, "T, full batches", low=1),
    "mus": Parameter("floats", _MUS, _MUS, _OURS, "sqrt(T)/sigma", 0.01),
    "runs": Parameter("int", 1000, 10_000, _OURS, "with a canary, and as many without", low=100),
    "sampling_rate": Parameter("float", 0.2, 0.2, _OURS, "q of the sampled runs", 0.001),
    "sampled_steps": Parameter("int", 30, 30, _OURS, "T of the sampled runs", low=1),
    "delta": Parameter("float", 1e-5, 1e-5, _OURS, "delta of every epsilon", 1e-12),
}
SETTLES = ("O-100", "O-101", "O-102", "O-103", "O-104")
PRESENCE, LABEL = "in or out", "one of ten"
#: how many guesses, over canaries; fixed before any run
SHARES = (0.02, 0.1, 0.33)
CONFIDENCE = 0.95
#: one run certifies at least this part of mu; many runs this part, and this part of the success:
#: what is expected at the least mu, less three standard errors
ONE, MANY, SUCCESS = 0.35, 0.3, 0.65
#: how often randomised response may be seen beyond its bound, and how often at least: with counts
#: of whole guesses the risk is not used up
SOUND, TIGHT = 0.05, 0.035
#: what a curve adds to epsilon at least; a first run, of 2,000 canaries, had over a fifth, one of
#: 8,000 has 17% at the least mu
GAIN = 1.1
AS_CLAIMED = "as claimed"
HALF, FORGOTTEN, UNCLIPPED = "half of the noise", "noise forgotten", "clipping forgotten"
ALTERED = {
    "one_run": {
        "mu, certified": "certified values of mu",
        "mu, audited": "values of mu from one run",
        "epsilon, audited": at(f"game == '{PRESENCE}'", "epsilons from one run"),
    },
    "many_runs": {
        "success, certified": "certified successes",
        "success, audited": "successes from many runs",
    },
    "coverage": {"wrong": "shares of bounds that are wrong"},
    "broken": {
        "p-value": (
            at(f"run == '{AS_CLAIMED}'", "p-values of correct runs"),
            at(f"run != '{AS_CLAIMED}'", "p-values of broken runs"),
        )
    },
    "sampled": {
        "epsilon, audited": "epsilons from sampled runs",
        "success, certified": "certified successes of sampled runs",
    },
    "opacus": {
        "epsilon, reported": "epsilons that Opacus reports",
        "mu, audited": "values of mu from runs of Opacus",
    },
}


def drawn(count: int, game: str, generator: torch.Generator) -> Canaries:
    """Canaries whose presence, or whose label, is a secret."""
    labels = torch.randint(CLASSES, (count,), generator=generator)
    if game == LABEL:
        return Canaries(labels, torch.ones(count, dtype=torch.bool))
    return Canaries(labels, torch.rand(count, generator=generator) < 0.5)


def counted(right: np.ndarray) -> dict[str, Any]:
    """How many of the surest guesses were right: arguments of the audits."""
    guesses = [max(int(share * right.size), 1) for share in SHARES]
    return {
        "right": [int(right[:r].sum()) for r in guesses],
        "guesses": guesses,
        "canaries": right.size,
    }


def audited(
    scored: Scored, canaries: Canaries, game: str, delta: float
) -> tuple[float, float, float]:
    """Bounds from below on mu and on epsilon, of Gaussian noise and of any mechanism."""
    if game == PRESENCE:
        seen, k, distance = counted(scored.presence(canaries)[0]), 2, 1.0
    else:
        seen, k, distance = counted(scored.label(canaries)), CLASSES, scored.distance
    mu = privacy.audit_gaussian(**seen, candidates=k) / distance
    any_mechanism = privacy.audit_epsilon(**seen, delta=delta, candidates=k)
    return mu, epsilon_of(mu, delta), any_mechanism


def epsilon_of(mu: float, delta: float) -> float:
    return privacy.epsilon(DPSGD(1 / mu), delta).lower if mu > 1e-3 else 0.0


def success_of(mu: float) -> float:
    return float(bounds.rero_gaussian(1 / mu, 1 / CLASSES)) if mu > 1e-3 else 1 / CLASSES


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    data = datasets.classified(p.dataset, study.data_root, "all")
    # training here is small; results are compared across machines, so on the CPU
    images = torch.as_tensor(data.inputs[: p.images], dtype=torch.float32)
    labels = torch.as_tensor(data.labels[: p.images], dtype=torch.long)
    one, many, opacus = [], [], []
    for mu in p.mus:
        run = DPSGD(math.sqrt(p.steps) / mu, steps=p.steps)
        epsilon, success = privacy.epsilon(run, p.delta).upper, bounds.rero(run, 1 / CLASSES).upper
        for game in (PRESENCE, LABEL):
            generator = study.generator("one run", game, mu)
            canaries = drawn(p.canaries, game, generator)
            scored, weights = train(run, run, images, labels, canaries, generator)
            lower, its_epsilon, any_ = audited(scored, canaries, game, p.delta)
            right = training.accuracy(weights, canaries.beside(images), labels)
            distance = scored.distance if game == LABEL else 1.0
            replaced = privacy.epsilon(DPSGD(1 / (mu * distance)), p.delta).upper
            epsilons = its_epsilon, epsilon, any_, replaced
            one.append((mu, game, lower, *epsilons, success_of(lower), success, float(right)))
        many.append((mu, *_many(study, run, images[:50], labels[:50]), epsilon, success))
        generator = study.generator("Opacus", mu)
        canaries = drawn(p.canaries // 4, PRESENCE, generator)
        half = images[: p.images // 2], labels[: p.images // 2]
        scored, reported = train_opacus(run, *half, canaries, generator, p.delta)
        lower, its_epsilon, _ = audited(scored, canaries, PRESENCE, p.delta)
        opacus.append((mu, lower, its_epsilon, epsilon, reported))
    broken, sampled = _broken(study, images, labels)
    columns = ["game", "mu, audited", "epsilon, audited", "epsilon, certified"]
    columns += ["epsilon, any", "epsilon of the game"]
    return Tables(
        {
            "one_run": pd.DataFrame(
                one,
                columns=["mu, certified", *columns, "success, audited", "success, certified"]
                + ["accuracy"],
            ),
            "many_runs": pd.DataFrame(
                many,
                columns=["mu, certified", "mu, audited", "epsilon, any", "named"]
                + ["success, audited", "best success", "epsilon, certified"]
                + ["success, certified"],
            ),
            "broken": broken,
            "sampled": sampled,
            "opacus": pd.DataFrame(
                opacus,
                columns=["mu, certified", "mu, audited", "epsilon, audited"]
                + ["epsilon, certified", "epsilon, reported"],
            ),
            "coverage": _coverage(),
        },
        exact=("coverage",),
        ran=f"Linear classifiers of {len(images):,} images of {data.name} with {p.canaries:,} "
        f"canaries, {p.steps} full batches; {2 * p.runs:,} small runs at each of {len(p.mus)} "
        f"noises; Opacus with {p.canaries // 4:,} canaries.",
    )


def _many(
    study: Context, run: DPSGD, images: torch.Tensor, labels: torch.Tensor
) -> tuple[float, ...]:
    """Audits of independent runs, each with one canary or with none."""
    p = study.parameters
    generator = study.generator("many runs", run.noise_multiplier)
    canaries = Canaries(
        torch.randint(CLASSES, (2 * p.runs,), generator=generator),
        torch.arange(2 * p.runs) < p.runs,
    )
    scored = train_many(run, images, labels, canaries, generator)
    found = scored.presence(canaries)[1] > 0
    inside = canaries.inside.numpy()
    rates = int(found[inside].sum()), p.runs, int(found[~inside].sum()), p.runs
    mine = scored.scores[canaries.inside].argmax(dim=1) == canaries.labels[canaries.inside]
    named = int(mine.sum())
    signal = math.sqrt(run.steps) / run.noise_multiplier
    return (
        privacy.audit_gaussian_many_runs(*rates),
        privacy.audit_epsilon_many_runs(*rates, p.delta),
        named / p.runs,
        bounds.audit_rero(named, p.runs),
        float(bounds.bayes_success(signal, CLASSES, -1 / (CLASSES - 1))),
    )


def _broken(
    study: Context, images: torch.Tensor, labels: torch.Tensor
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs that do not do what they claim, and what is certified of two that sample."""
    p, rows, sampled = study.parameters, [], []
    full = DPSGD(math.sqrt(p.steps), steps=p.steps)
    for claim in (full, DPSGD(2.0, p.sampling_rate, p.sampled_steps)):
        noise, changed = claim.noise_multiplier, functools.partial(dataclasses.replace, claim)
        # who looks for less noise than claimed knows it better when it is there
        expected = changed(noise_multiplier=noise / 3)
        for name, run in {
            AS_CLAIMED: claim,
            HALF: changed(noise_multiplier=noise / 2),
            FORGOTTEN: changed(noise_multiplier=1e-3 * noise),
            # the same noise, in units of a norm that is never reached
            UNCLIPPED: changed(noise_multiplier=noise / 100, max_grad_norm=100.0),
        }.items():
            q = claim.sampling_rate
            generator = study.generator("broken", name, q)
            canaries = drawn(p.canaries, PRESENCE, generator)
            scored, _ = train(run, expected, images, labels, canaries, generator)
            seen = counted(scored.presence(canaries)[0])
            lower = privacy.audit_epsilon(**seen, delta=p.delta)
            certified = privacy.epsilon(claim, p.delta).upper
            rows.append((name, q, bounds.audit_claim(claim, **seen), lower, certified))
            if q < 1 and name in (AS_CLAIMED, HALF):
                most = bounds.audit_noise(**seen, sampling_rate=q, steps=claim.steps)
                sampled.append((name, run.noise_multiplier, most, lower, *_ends(run, most, p)))
    return pd.DataFrame(
        rows, columns=["run", "sampling rate", "p-value", "epsilon, any", "epsilon, claimed"]
    ), pd.DataFrame(
        sampled,
        columns=["run", "noise multiplier", "noise, at most", "epsilon, any"]
        + ["epsilon, audited", "epsilon, certified", "success, audited", "success, certified"],
    )


def _ends(run: DPSGD, most: float, p: Any) -> tuple[float, float, float, float]:
    """Epsilon and success of a run from below, if it has at most this noise, and from above."""
    epsilon, success = privacy.epsilon(run, p.delta).upper, bounds.rero(run, 1 / CLASSES).upper
    if most == math.inf:
        return 0.0, epsilon, 1 / CLASSES, success
    at = dataclasses.replace(run, noise_multiplier=most)
    lower = privacy.epsilon(at, p.delta).lower, bounds.rero(at, 1 / CLASSES).lower
    return lower[0], epsilon, lower[1], success


def _coverage() -> pd.DataFrame:
    """How often the bound exceeds the epsilon of randomised response; summed, not drawn."""
    rows = []
    for k in (2, CLASSES):
        for epsilon in (0.5, 2.0):
            for guesses in (500, 5000):
                right = np.arange(guesses + 1)
                chance = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
                # the bound grows with the right guesses: find the first that is wrong
                low, high = -1, guesses + 1
                while high - low > 1:
                    middle = (low + high) // 2
                    beyond = privacy.audit_epsilon(middle, guesses, candidates=k) > epsilon
                    low, high = (low, middle) if beyond else (middle, high)
                wrong = float(stats.binom.pmf(right[high:], guesses, chance).sum())
                rows.append((k, epsilon, guesses, wrong))
    return pd.DataFrame(rows, columns=["candidates", "epsilon", "guesses", "wrong"])


def judge(tables: Tables) -> Iterator[Verdict]:
    one, many = tables["one_run"], tables["many_runs"]
    below = [
        (t[f"{of}, audited"] <= t[f"{of}, certified"]).all()
        for t, of in ((one, "mu"), (one, "epsilon"), (one, "success"), (many, "mu"))
    ]
    below.append((many["success, audited"] <= many["success, certified"]).all())
    below.append((one["epsilon, any"] <= one["epsilon of the game"]).all())
    below.append((many["epsilon, any"] <= many["epsilon, certified"]).all())
    sampled = tables["sampled"]
    below += [
        (sampled[f"{of}, audited"] <= sampled[f"{of}, certified"]).all()
        for of in ("epsilon", "success")
    ]
    yield check(
        "beyond/audit_from_below",
        all(below),
        "no bound from below on mu, epsilon or success exceeds the certified bound from above",
        ours=f"mu {_between(one['mu, audited'] / one['mu, certified'])} of the certified value "
        f"from one run, {_between(many['mu, audited'] / many['mu, certified'])} from many; epsilon "
        f"{_between(sampled['epsilon, audited'] / sampled['epsilon, certified'])} from one with "
        "sampled batches",
    )
    wrong = tables["coverage"]["wrong"]
    yield check(
        "O-100",
        wrong.max() <= SOUND and wrong.min() >= TIGHT,
        ours=f"{wrong.min():.2%} to {wrong.max():.2%}, summed exactly",
    )
    yield _nearness(one, many)
    yield _caught(tables["broken"])
    presence = one[one["game"] == PRESENCE]
    gain, with_sampling = (
        t["epsilon, audited"] / t["epsilon, any"].clip(lower=1e-9) for t in (presence, sampled)
    )
    yield check(
        "O-103",
        (gain > GAIN).all() and (with_sampling > GAIN).all(),
        ours=f"{gain.min():.2f} to {gain.max():.2f} times, with sampling "
        f"{with_sampling.min():.2f} to {with_sampling.max():.2f}",
    )
    opacus = tables["opacus"]
    nearest = opacus["mu, audited"] / opacus["mu, certified"]
    yield check(
        "O-104",
        (nearest >= ONE / 2).all()
        and (nearest <= 1).all()
        and (opacus["epsilon, certified"] <= 1.001 * opacus["epsilon, reported"]).all()
        and (opacus["epsilon, audited"] <= opacus["epsilon, reported"]).all(),
        ours="; ".join(
            f"{low:.1f} < {exact:.2f} < {said:.2f}"
            for low, exact, said in opacus[
                ["epsilon, audited", "epsilon, certified", "epsilon, reported"]
            ].to_numpy()
        ),
    )


def _nearness(one: pd.DataFrame, many: pd.DataFrame) -> Verdict:
    presence = one[one["game"] == PRESENCE]
    single = presence["mu, audited"] / presence["mu, certified"]
    several = many["mu, audited"] / many["mu, certified"]
    success = many["success, audited"] / many["success, certified"]
    return check(
        "O-101",
        (single >= ONE).all() and (several >= MANY).all() and (success >= SUCCESS).all(),
        ours=f"{_between(single)}; {_between(several)}; {_between(success)}",
    )


def _caught(broken: pd.DataFrame) -> Verdict:
    sound = broken["run"] == AS_CLAIMED
    refuted = broken["p-value"] < 1 - CONFIDENCE
    # half of a sampled run's noise is at the edge of what so many canaries show
    edge = (broken["run"] == HALF) & (broken["sampling rate"] < 1)
    worst = broken[~sound & ~edge]["p-value"].max()
    return check(
        "O-102",
        bool(refuted[~sound & ~edge].all() and not refuted[sound].any()),
        ours=f"p at most {worst:.2g} for these, at least {broken[sound]['p-value'].min():.2g} for "
        f"correct runs; half of the noise, sampled: {broken[edge]['p-value'].iloc[0]:.2g}",
        tolerance=f"p < {1 - CONFIDENCE:.2f}",
    )


def _between(values: pd.Series) -> str:
    return f"{values.min():.0%} to {values.max():.0%}"


CAPTION = (
    "Left: mu of Gaussian privacy as audited, against the certified value: from one run with "
    "canaries whose presence or whose label is guessed, with this library and Opacus, and from "
    "many runs. Middle: success with ten candidates, certified (line), of the best attack, as "
    "measured, and its lower limit. Right: probability of so many right guesses if a run were what "
    "it claims, for full batches and sampled ones."
)


@drawing
def draw(tables: Tables) -> Figure:
    one, many, opacus = tables["one_run"], tables["many_runs"], tables["opacus"]
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(8.4, 3.3), width_ratios=(1, 1, 0.9), layout="constrained"
    )
    ends = np.array([0.4, 5.0])
    left.loglog(ends, ends, color=BOUND, label="certified")
    lines = []
    for game, colour, mark in ((PRESENCE, BLUE, "o"), (LABEL, ORANGE, "s")):
        part = one[one["game"] == game]
        lines.append((part, mark + "--", colour, f"one run, {game}"))
    lines += [(opacus, "^:", RED, "one run, Opacus"), (many, "D-", GREEN, "many runs")]
    for part, style, colour, label in lines:
        left.plot(part["mu, certified"], part["mu, audited"], style, color=colour, label=label)
    left.set(xlabel=r"certified $\mu$", ylabel=r"audited $\mu$")
    ticks = list(one["mu, certified"].unique())
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_ticks([], minor=True)
    left.set_ylim(top=9 * ends[1])  # room for the legend
    left.legend(fontsize=8, loc="upper left")
    fine = np.geomspace(0.4, 5, 60)
    middle.semilogx(fine, [success_of(mu) for mu in fine], color=BOUND, label="certified")
    x = many["mu, certified"]
    best = bounds.bayes_success(fine, CLASSES, -1 / (CLASSES - 1))
    middle.plot(fine, best, "-", color=GREY, label="best attack")
    middle.plot(x, many["named"], "P", color=GREEN, label="attacked")
    middle.plot(x, many["success, audited"], "D", color=GREEN, label="many runs, 95%")
    part = one[one["game"] == LABEL]
    middle.plot(x, part["success, audited"], "s", color=ORANGE, label="one run, one of ten")
    middle.set(xlabel=r"certified $\mu$", ylabel="success, one of ten", ylim=(0, 1.7))
    middle.set_yticks(np.linspace(0, 1, 6))
    middle.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    middle.minorticks_off()
    middle.legend(fontsize=8, loc="upper left")
    broken = tables["broken"]
    names = list(dict.fromkeys(broken["run"]))
    for sampled, colour, mark, word in ((False, BLUE, "o", "full"), (True, ORANGE, "s", "sampled")):
        part = broken[(broken["sampling rate"] < 1) == sampled]
        places = [names.index(name) + 0.12 * (1 if sampled else -1) for name in part["run"]]
        right.semilogx(
            part["p-value"], places, mark, color=colour, label=f"{word} batches", clip_on=False
        )
    right.axvline(1 - CONFIDENCE, color=GREY, ls=":")
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set(xlabel="probability if the claim held", xlim=(1e-6, 1.5))
    right.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.4, 1))
    right.grid(axis="y", visible=False)
    return figure
