"""The network of shift-tolerant LPIPS (Ghildyal & Liu 2022), from its published weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional

__all__ = ["ShiftTolerant"]

#: the convolution at the end of each of AlexNet's five stages: its entry's name, and its padding
_CONVOLUTIONS = (
    ("net.slice1.0", 2),
    ("net.slice2.5", 2),
    ("net.slice3.9", 1),
    ("net.slice4.11", 1),
    ("net.slice5.13", 1),
)
#: the stages that begin with pooling
_POOLED = (1, 2)


class ShiftTolerant(torch.nn.Module):
    """Distance of the features of an AlexNet whose strides are blurred and which starts without.

    Parameters
    ----------
    weights : mapping of str to Tensor
        As published for ``net="alex", variant="shift_tolerant"``.

    Raises
    ------
    KeyError
        If an entry is missing.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        entries = {
            "shift": weights["scaling_layer.shift"],
            "scale": weights["scaling_layer.scale"],
            "blur": weights["net.slice1.1.filt"][:1],
        }
        for stage, (name, _) in enumerate(_CONVOLUTIONS):
            entries[f"weight{stage}"] = weights[f"{name}.weight"]
            entries[f"bias{stage}"] = weights[f"{name}.bias"]
            entries[f"linear{stage}"] = weights[f"lin{stage}.model.1.weight"]
        for name, entry in entries.items():
            self.register_buffer(name, entry)

    def forward(
        self, target: torch.Tensor, reconstruction: torch.Tensor, normalize: bool = False
    ) -> torch.Tensor:
        """Return distances, shape (n, 1, 1, 1), of pictures in [-1, 1], or [0, 1] to normalise."""
        total = torch.zeros(())
        x, y = (self._scaled(images, normalize) for images in (target, reconstruction))
        for stage in range(len(_CONVOLUTIONS)):
            x, y = self._stage(x, stage), self._stage(y, stage)
            squares = (_unit(x) - _unit(y)).square()
            distances = functional.conv2d(squares, self._buffers[f"linear{stage}"])
            total = total.to(distances) + distances.mean(dim=(2, 3), keepdim=True)
        return total

    def _scaled(self, images: torch.Tensor, normalize: bool) -> torch.Tensor:
        return ((2 * images - 1 if normalize else images) - self.shift) / self.scale

    def _stage(self, images: torch.Tensor, stage: int) -> torch.Tensor:
        if stage in _POOLED:
            images = self._halved(functional.max_pool2d(images, 3, 1))
        weight, bias = (self._buffers[f"{entry}{stage}"] for entry in ("weight", "bias"))
        images = functional.conv2d(images, weight, bias, padding=_CONVOLUTIONS[stage][1])
        return functional.relu(self._halved(images) if stage == 0 else images)

    def _halved(self, images: torch.Tensor) -> torch.Tensor:
        """Blur by 3 x 3 pixels and keep every other one."""
        channels = images.shape[1]
        padded = functional.pad(images, (2, 2, 2, 2), mode="reflect")
        kernels = self.blur.expand(channels, -1, -1, -1)
        return functional.conv2d(padded, kernels, stride=2, groups=channels)


def _unit(features: torch.Tensor) -> torch.Tensor:
    """Features divided by their norm at each place."""
    return features / (features.square().sum(dim=1, keepdim=True).sqrt() + 1e-10)
