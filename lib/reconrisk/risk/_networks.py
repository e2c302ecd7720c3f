"""Two-layer networks, where a model is given: the bounds of ``liu2024``."""

from __future__ import annotations

import functools
import math

import numpy as np

from reconrisk import bounds, special
from reconrisk.risk._entries import Interval, Source
from reconrisk.risk._kinds import Kind, Method, Point, Setting
from reconrisk.risk._settings import TwoLayerModel

__all__ = ["NETWORK"]


def _model(setting: Setting) -> TwoLayerModel:
    assert setting.model is not None
    return setting.model


def _noise_std(setting: Setting) -> float:
    """Standard deviation of the noise on each entry of the released batch gradient."""
    assert setting.run.noise_multiplier is not None
    return setting.run.noise_multiplier * setting.run.max_grad_norm


def _grad_norm(setting: Setting) -> float:
    norm = _model(setting).grad_norm
    return 0.0 if norm is None else norm


def _tensor(setting: Setting, point: Point | None) -> Interval:
    model = _model(setting)
    second, third = special.tensor_orders(model.activation)
    sizes = [abs(special.hermite_coefficient(model.activation, k)) for k in (second, third)]
    return Interval.exactly(
        float(
            bounds.tensor_attack_order(
                setting.need("dimension"),
                model.width,
                model.batch_size,
                noise_std=_noise_std(setting),
                grad_norm=_grad_norm(setting),
                max_grad_norm=setting.run.max_grad_norm,
                dropout=model.dropout,
                coefficient=min(sizes),
                singular_value=model.singular_value,
                condition=model.condition,
            )
        )
    )


def _order(setting: Setting, point: Point | None) -> Interval:
    model = _model(setting)
    return Interval.exactly(
        float(
            bounds.cramer_rao_order(
                setting.need("dimension"),
                model.width,
                _noise_std(setting),
                grad_norm=_grad_norm(setting),
                max_grad_norm=setting.run.max_grad_norm,
                dropout=model.dropout,
                pruned=model.pruned,
            )
        )
    )


def _wide(setting: Setting, point: Point | None) -> Interval:
    """The loosened bound with the limit of its trace, for B records of equal residual."""
    model = _model(setting)
    d = setting.need("dimension")
    one = bounds.information_trace_limit(
        model.activation, int(d), model.width * (1.0 - model.dropout), [model.residual]
    )
    clipped = max(1.0, _grad_norm(setting) / setting.run.max_grad_norm)
    trace = one * model.batch_size * (1.0 - model.pruned)
    error = _noise_std(setting) * clipped * d * math.sqrt(model.batch_size / trace)
    return Interval.exactly(error)


def _exact(setting: Setting, point: Point | None) -> Interval:
    model = _model(setting)
    assert model.information is not None
    information = model.information.clipped(setting.run.max_grad_norm)
    value = bounds.cramer_rao_error(information, _noise_std(setting), np.array(model.inputs))
    return Interval.exactly(float(value))


def _refuse_without_information(setting: Setting, point: Point | None) -> str:
    if _model(setting).information is None:
        return "needs the information of the network's gradient, and its records"
    return ""


_ONE = "One release of the batch's gradient, its own records counted in the batch size."
_UNIT = "Records are unit vectors; the weights are random normal and known."
_UNBIASED = "Holds for unbiased estimators; a biased one can be below it where noise is large."

#: a lower bound on the reconstruction error of a two-layer network
_error_bound = functools.partial(
    Kind,
    threat_model="network",
    unit="data units",
    direction="lower bound on error",
    riskier="smaller",
)
#: the order of that error, with constants set to one
_order_of_error = functools.partial(
    Kind,
    threat_model="network",
    unit="order",
    direction="order of an error",
    riskier="smaller",
    needs=("dimension", "model"),
    reversible=False,
)

NETWORK = (
    _error_bound(
        name="cramer_rao",
        title="Cramer-Rao, exact",
        question="What root mean squared error is left to any unbiased attack on the given batch?",
        needs=("model",),
        gaussian=Method(
            _exact,
            Source(
                "liu2024",
                "Theorem 3.2, with its square and 1/B corrected",
                "prf-liu2024-thm3_2",
                "reconrisk.bounds.cramer_rao_error",
            ),
            "sigma C sqrt(tr((J J')^-1)/B)",
            (_ONE, _UNBIASED),
            "Least squares on the gradient attains it where noise is small.",
            _refuse_without_information,
        ),
    ),
    _error_bound(
        name="cramer_rao_wide",
        title="Cramer-Rao, wide network",
        question="What root mean squared error is left to any unbiased attack on a wide network?",
        needs=("dimension", "model"),
        gaussian=Method(
            _wide,
            Source(
                "liu2024",
                "Theorem 3.2 and Lemma D.6",
                "prf-liu2024-thm3_2",
                "reconrisk.bounds.information_trace_limit",
            ),
            "sigma C max(1, |G|/C) sqrt(B d^2/tr), tr the limit of tr(J J')",
            (_ONE, _UNIT, "The width is large; all residuals have one size.", _UNBIASED),
            "The exact bound of a given network is larger, by a factor that grows with the batch; "
            "least squares attains that one.",
        ),
    ),
    _order_of_error(
        name="cramer_rao_order",
        title="Cramer-Rao, order",
        question="Of what order is the lower bound on a two-layer network's reconstruction error?",
        gaussian=Method(
            _order,
            Source(
                "liu2024",
                "Table 1, second row",
                "prf-liu2024-thm3_2",
                "reconrisk.bounds.cramer_rao_order",
            ),
            "sigma C max(1, |G|/C) sqrt(d/((1 - dropout)(1 - pruned) m))",
            (_ONE, _UNIT, "Constants and logarithms are set to one: only ratios mean anything."),
            "Matches the upper bound in d and m only.",
        ),
    ),
    _order_of_error(
        name="tensor_attack_order",
        title="Tensor attack, order",
        question="Of what order is the tensor attack's reconstruction error?",
        gaussian=Method(
            _tensor,
            Source(
                "liu2024",
                "Table 1, first row",
                "prf-liu2024-thm3_1",
                "reconrisk.bounds.tensor_attack_order",
            ),
            "condition/(coefficient pi_min^2) (B + sigma C max(1, |G|/C)) "
            "sqrt(d/((1 - dropout) m))",
            (_ONE, _UNIT, "Constants and logarithms are set to one: only ratios mean anything."),
            "Least squares from the tensor attack's start finds records exactly where there is no "
            "noise: the order is that of one attack, not of the risk.",
        ),
    ),
)
