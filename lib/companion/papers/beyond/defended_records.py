"""What defences without noise leave of one record's gradient, at the first weights of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.experiments.informed_adversary import Scene
from companion.experiments.tools import as_numpy
from companion.papers.beyond.record_gradient import clipped_gradient
from companion.study import Context
from reconrisk.mechanisms import Clipping, EntryDropout, Pruning, defend
from reconrisk.training import Weights

__all__ = ["defended_records", "read_first_layer"]

#: what a client computes of a record and its label
Update = Callable[[torch.Tensor, torch.Tensor], Weights]


def defended_records(study: Context, scene: Scene, pool: np.ndarray) -> pd.DataFrame:
    """Attack the first records of a pool under each defence, one row a defence.

    Parameters
    ----------
    study : Context
        With the parameters of ``beyond/one_scale``.
    scene : Scene
        Whose first weights are attacked.
    pool : ndarray, shape (count, d)
        The scene's pool.
    """
    p = study.parameters
    weights = {k: w.double()[None].cpu() for k, w in scene.initial().items()}
    labels = torch.as_tensor(scene.images.labels[scene.positions("pool")])
    records = torch.as_tensor(pool)
    mean = pool.mean(axis=0)
    rows = []
    for name, (update, transforms) in _defences(study, weights).items():
        every = torch.func.vmap(update)(records, labels)
        generator = study.generator("defence", name)
        pruned = any(isinstance(part, Pruning) for part in transforms)
        # what is dropped at random shows, and is left out of the comparison with candidates
        random = any(isinstance(part, EntryDropout) for part in transforms)
        alike = every if random else dict(defend(every, transforms, generator=generator).gradient)
        errors, found, right, ranks, apart = [], [], [], [], [0.0]
        for k in range(p.targets):
            own = {n: g[k : k + 1] for n, g in every.items()}
            released = defend(own, transforms, generator=generator)
            visible = None
            if released.visible is not None:
                visible = {n: mask[0] for n, mask in released.visible.items()}
            one = {n: g[0] for n, g in released.gradient.items()}
            record, read, limit = read_first_layer(one, visible, pruned=pruned)
            guess = np.where(read, record, np.minimum(mean, 0.5 * limit))
            errors.append(np.mean((guess - pool[k]) ** 2))
            found.append(read.mean())
            apart.append(float(np.max(np.abs(np.where(read, record - pool[k], 0.0)))))
            right.append(_nearest(alike, one, visible if random else None) == k)
            if k < p.fitted:
                ranks.append(_rank(update, records[k], labels[k], visible))
        determined = float(np.mean(np.asarray(ranks) == pool.shape[1]))
        rows.append(
            {
                "defence": name,
                "epsilon": math.inf,
                "right candidate": float(np.mean(right)),
                "values read": float(np.mean(found)),
                "largest error of those": max(apart),
                "RMSE": math.sqrt(float(np.mean(errors))),
                "records determined": determined,
                "Cramer-Rao": 0.0 if determined == 1 else math.inf,
            }
        )
    return pd.DataFrame(rows)


def _defences(study: Context, weights: Weights) -> dict[str, tuple[Update, tuple[Any, ...]]]:
    """Each defence: what the client computes of a record, and what is done to it."""
    p = study.parameters

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
