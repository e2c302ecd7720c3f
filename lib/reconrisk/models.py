"""The networks of the papers: those an attacker manipulates, and small classifiers.

The attacker of *From Mean to Extreme* (Section 3.2) puts a fully connected layer in front of a
network or in its place; Ziller et al. (eq. 1) replace the whole network by one projection. Hayes et
al. (Appendix A) train a small classifier, or the last layer of a large one. Biswas et al.
(Section VI) train a perceptron with sigmoid activations and no biases.
"""

from __future__ import annotations

from reconrisk._extras import require

require("torch", "reconrisk.models")

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from reconrisk import arguments

__all__ = ["AttackLayer", "Classifier", "PrependedNetwork", "SigmoidNetwork", "sum_of_outputs"]


class AttackLayer(nn.Module):
    """``f(X) = W (a X - c) + b`` with ``rows`` rows: the layer whose gradient leaks the record.

    Parameters
    ----------
    dimension : int
        N, values of a record.
    rows : int
        M, rows of ``W``.
    bias : bool
        Whether the layer has a bias ``b``, whose gradient reveals the clipping factor.
    offset : Tensor, shape (N,), optional
        ``c``: a fixed vector subtracted from the record before the layer (default none).
    input_scale : float
        ``a``: a fixed factor on the record before the layer.
    dtype : torch.dtype
        Of the parameters.

    Notes
    -----
    The weights start at zero: with a loss that is linear in ``f`` the gradient does not depend on
    them (*From Mean to Extreme*, eq. 6), and ``M N`` random numbers need not be drawn.
    """

    def __init__(
        self,
        dimension: int,
        rows: int = 1,
        *,
        bias: bool = False,
        offset: torch.Tensor | None = None,
        input_scale: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, dimension, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(rows, dtype=dtype)) if bias else None
        self.register_buffer("offset", offset)
        self.input_scale = input_scale

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the layer's outputs, shape (..., M), for records of shape (..., N)."""
        transformed = self.input_scale * inputs
        if self.offset is not None:
            transformed = transformed - self.offset
        return nn.functional.linear(transformed, self.weight, self.bias)


class PrependedNetwork(nn.Module):
    """An attack layer in front of the network that is trained: ``g(f(X))``.

    The network g is a small fully connected classifier with ReLU. Its gradient, ``G_{X,P}`` of
    *From Mean to Extreme*, eq. (9), only adds to the norm of the gradient.

    Parameters
    ----------
    dimension : int
        N, values of a record.
    rows : int
        M, rows of the attack layer.
    hidden : int
        Units of g's hidden layer.
    generator : torch.Generator
        Source of g's weights.
    """

    def __init__(self, dimension: int, rows: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.attack = AttackLayer(dimension, rows, bias=True)
        self.rest = nn.Sequential(nn.Linear(rows, hidden), nn.ReLU(), nn.Linear(hidden, 10))
        with torch.no_grad():
            # positive inputs and weights keep every ReLU active: no row's gradient vanishes
            self.attack.bias.fill_(1.0)
            for parameter in self.rest.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=generator) / rows)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return ten outputs for records of shape (..., N)."""
        return self.rest(self.attack(inputs))


def sum_of_outputs(outputs: torch.Tensor) -> torch.Tensor:
    """Return the attacker's loss ``1^T f(X)`` (*From Mean to Extreme*, Corollary 1), a scalar.

    Parameters
    ----------
    outputs : Tensor
        ``f(X)`` of one record, or of several, whose losses are summed.
    """
    return outputs.sum()


@dataclass(frozen=True)
class Classifier:
    """Architecture of a classifier with one ELU layer or none; it holds no weights.

    Weights are passed as a mapping of names to tensors (``"hidden.weight"`` (h, d),
    ``"hidden.bias"`` (h,), ``"output.weight"`` (c, h), ``"output.bias"`` (c,)), with leading axes
    where there are many models. Without a hidden layer, as when the last layer is fine-tuned on
    fixed features, only ``"output.*"`` remain, with ``"output.weight"`` (c, d).

    Parameters
    ----------
    inputs : int
        d, values of a record.
    hidden : int or None
        h, width of the hidden layer; None for a linear classifier.
    classes : int
        c, at least 2.

    Notes
    -----
    Hayes et al., Appendix A: 784-10-10 with ELU, 7,960 parameters.
    """

    inputs: int
    hidden: int | None = 10
    classes: int = 10

    def __post_init__(self) -> None:
        for name, least in (("inputs", 1), ("hidden", 1), ("classes", 2)):
            if (value := getattr(self, name)) is not None or name != "hidden":
                object.__setattr__(self, name, arguments.count(name, value, least))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each parameter of one model."""
        if self.hidden is None:
            return {"output.weight": (self.classes, self.inputs), "output.bias": (self.classes,)}
        return {
            "hidden.weight": (self.hidden, self.inputs),
            "hidden.bias": (self.hidden,),
            "output.weight": (self.classes, self.hidden),
            "output.bias": (self.classes,),
        }

    @property
    def parameter_count(self) -> int:
        """Number of trained values, biases included."""
        return sum(torch.Size(shape).numel() for shape in self.shapes.values())

    def initialise(
        self, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> dict[str, torch.Tensor]:
        """Draw one model's initial weights as PyTorch does: uniform within ``1 / sqrt(fan in)``.

        Parameters
        ----------
        generator : torch.Generator
            Source of the draws; the weights are created on its device.
        dtype : torch.dtype
            Of the weights.

        Returns
        -------
        dict of str to Tensor
            Weights of the shapes in :attr:`shapes`.
        """
        weights = {}
        for name, shape in self.shapes.items():
            fan_in = self.shapes[f"{name.split('.')[0]}.weight"][1]
            drawn = torch.rand(shape, generator=generator, device=generator.device, dtype=dtype)
            weights[name] = (2 * drawn - 1) / fan_in**0.5
        return weights

    def module(self, weights: Mapping[str, torch.Tensor]) -> nn.Sequential:
        """Return one model as a PyTorch module with these weights."""
        # built on the meta device: PyTorch's own initialisation would draw from the global seed
        if self.hidden is None:
            layers = [("output", nn.Linear(self.inputs, self.classes, device="meta"))]
        else:
            layers = [
                ("hidden", nn.Linear(self.inputs, self.hidden, device="meta")),
                ("activation", nn.ELU()),
                ("output", nn.Linear(self.hidden, self.classes, device="meta")),
            ]
        network = nn.Sequential(OrderedDict(layers))
        network.load_state_dict({name: w.clone() for name, w in weights.items()}, assign=True)
        return network.requires_grad_()


@dataclass(frozen=True)
class SigmoidNetwork:
    """Architecture of a fully connected classifier with sigmoid activations and no biases.

    Weights are passed as a mapping of names to tensors, in the order of the layers:
    ``"layer1.weight"`` (h1, d), ``"layer2.weight"`` (h2, h1), ..., with a leading axis where there
    are many models.

    Parameters
    ----------
    widths : tuple of int
        Values of a record, units of each hidden layer, classes; at least two entries.

    Notes
    -----
    Biswas et al., Section VI: 13,700 parameters on 16 x 16 images with an input, a hidden and an
    output layer and no biases. Our text of the paper lacks the widths; 256-50-15-10 gives 13,700
    parameters, which no single hidden layer does.
    """

    widths: tuple[int, ...] = (256, 50, 15, 10)

    def __post_init__(self) -> None:
        if len(self.widths) < 2:
            raise ValueError(f"widths must have at least two entries; got {self.widths!r}")
        arguments.integer("widths", self.widths, 1)
        arguments.integer("widths[-1]", self.widths[-1], 2)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Name and shape of each layer's weights of one model, first layer first."""
        return {
            f"layer{number}.weight": (self.widths[number], self.widths[number - 1])
            for number in range(1, len(self.widths))
        }

    @property
    def parameter_count(self) -> int:
        """Number of trained values."""
        return sum(rows * columns for rows, columns in self.shapes.values())

    def initialise(
        self,
        generator: torch.Generator,
        models: int | None = None,
        dtype: torch.dtype = torch.float32,
        *,
        glorot: bool = False,
    ) -> dict[str, torch.Tensor]:
        """Draw initial weights as PyTorch does: uniform within ``1 / sqrt(fan in)``.

        Parameters
        ----------
        generator : torch.Generator
            Source of the draws; the weights are created on its device.
        models : int, optional
            K: draw this many models, stacked along a leading axis; by default one, without that
            axis.
        dtype : torch.dtype
            Of the weights.
        glorot : bool
            Uniform within ``sqrt(6 / (fan in + fan out))`` instead (Glorot and Bengio 2010,
            equation 16): the same draws, scaled.

        Returns
        -------
        dict of str to Tensor
            Weights of the shapes in :attr:`shapes`, (K, ...) if ``models`` is given.
        """
        leading = () if models is None else (models,)
        weights = {}
        for name, shape in self.shapes.items():
            drawn = torch.rand(
                (*leading, *shape), generator=generator, device=generator.device, dtype=dtype
            )
            rows, columns = shape
            weights[name] = (2 * drawn - 1) / columns**0.5
            if glorot:
                weights[name] *= (6 * columns / (rows + columns)) ** 0.5
        return weights

    def module(self, weights: Mapping[str, torch.Tensor]) -> nn.Sequential:
        """Return one model as a PyTorch module with these weights."""
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for number, (name, (rows, columns)) in enumerate(self.shapes.items(), 1):
            if number > 1:
                layers[f"activation{number - 1}"] = nn.Sigmoid()
            # on the meta device: PyTorch's own initialisation would draw from the global seed
            layers[name.split(".")[0]] = nn.Linear(columns, rows, bias=False, device="meta")
        network = nn.Sequential(layers)
        network.load_state_dict({name: w.clone() for name, w in weights.items()}, assign=True)
        return network.requires_grad_()
