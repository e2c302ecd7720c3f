"""Anybody's network as attacks and gradients take it: unwrapped, with its layers checked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

__all__ = [
    "Loss",
    "check_classes",
    "check_labels",
    "outputs_of",
    "plain_attention",
    "plain_names",
    "prepare",
    "state_of",
    "trainable",
]

#: maps outputs (n, ...) and labels (n, ...) to a scalar
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_WRAPPED = ("_module.", "module.", "_orig_mod.")


def prepare(network: nn.Module, *, alone: bool = False) -> nn.Module:
    """Return a network without side effects in its forward pass; raise ValueError if it has others.

    Wrappers of Opacus, of data parallelism and of ``torch.compile`` are taken off. Batch norms in
    training mode normalise by the batch as before, and no longer count it; with ``alone``, where
    every record is by itself, they are refused. The given network stays as it is.
    """
    network = _unwrapped(network)
    counting = []
    for name, layer in network.named_modules():
        called = f"network{'.' * bool(name)}{name} ({type(layer).__name__})"
        if _draws(layer):
            raise ValueError(
                f"{called} draws at random in training mode, which "
                "no attacker can repeat: call network.eval()"
            )
        if alone and isinstance(layer, _BatchNorm) and (
            layer.training or layer.running_mean is None
        ):  # fmt: skip
            raise ValueError(
                f"{called} normalises by the whole batch, so that "
                "no record has a gradient of its own: call network.eval(), or train with GroupNorm"
            )
        if isinstance(layer, _NormBase) and layer.training and layer.running_mean is not None:
            counting.append(name)
    if counting:
        network = copy.deepcopy(network)
        for name in counting:
            layer = network.get_submodule(name)
            layer.running_mean = layer.running_var = layer.num_batches_tracked = None
    return network


def _draws(layer: nn.Module) -> bool:
    if not layer.training:
        return False
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return layer.p > 0
    return isinstance(layer, (nn.MultiheadAttention, nn.RNNBase)) and layer.dropout > 0


def _unwrapped(network: nn.Module) -> nn.Module:
    if isinstance(network, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return _unwrapped(network.module)
    if isinstance(compiled := getattr(network, "_orig_mod", None), nn.Module):
        return _unwrapped(compiled)
    inner = getattr(network, "_module", None)
    if type(network).__module__.partition(".")[0] != "opacus" or not isinstance(inner, nn.Module):
        return network
    # its hooks keep activations of every pass, and count passes on the parameters
    inner = copy.deepcopy(inner, {id(network): network})
    for layer in inner.modules():
        for hooks in (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks):
            for key, hook in list(hooks.items()):
                if getattr(getattr(hook, "func", hook), "__self__", None) is network:
                    del hooks[key]
    return inner


def plain_names(
    gradient: Mapping[str, torch.Tensor], network: nn.Module
) -> dict[str, torch.Tensor]:
    """Return a gradient whose names are the unwrapped network's."""
    known = {name for name, _ in network.named_parameters()}
    found = {}
    for name, values in gradient.items():
        plain = name
        while plain not in known and plain.startswith(_WRAPPED):
            plain = plain.partition(".")[2]
        found[plain] = values
    return found


def trainable(network: nn.Module) -> list[str]:
    """Return the names of the parameters that training moves; all if every one is frozen."""
    named = dict(network.named_parameters())
    return [name for name, p in named.items() if p.requires_grad] or list(named)


def state_of(
    network: nn.Module, names: Iterable[str]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the named parameters, detached, and all other parameters and buffers."""
    state = {name: p.detach() for name, p in network.named_parameters()}
    moved = {name: state.pop(name) for name in names}
    return moved, {**state, **dict(network.named_buffers())}


def outputs_of(found: Any) -> torch.Tensor:
    """Return what a network returned as a tensor: itself, or its ``logits``."""
    if isinstance(found, Mapping):
        found = found.get("logits", found)
    logits = getattr(found, "logits", found)
    if not isinstance(logits, torch.Tensor):
        kind = type(found).__name__
        raise TypeError(f"network must return a tensor, or an object with logits; got {kind}")
    return logits


def plain_attention() -> Any:
    """Return a context in which attention is computed by operations with second derivatives."""
    return sdpa_kernel(SDPBackend.MATH)


def check_labels(network: nn.Module, records: torch.Tensor, labels: torch.Tensor) -> None:
    """Refuse labels that are no positions of the network's outputs for a batch of records."""
    with torch.no_grad(), plain_attention():
        outputs = outputs_of(network(records))
    if outputs.ndim < 2 or len(outputs) != len(records):
        raise ValueError(
            f"network must return outputs (n, classes) for n = {len(records)} records; got shape "
            f"{tuple(outputs.shape)}"
        )
    check_classes(labels, outputs.shape[1])


def check_classes(labels: torch.Tensor, classes: int) -> None:
    """Refuse integer labels that are none of the classes, which count from zero."""
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        raise ValueError(
            f"labels must be in [0, {classes - 1}], positions of the network's outputs; got "
            f"{int(wrong[0])}"
        )
