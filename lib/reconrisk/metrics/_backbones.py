"""The files of weights that perceptual distances stand on, and their checksums."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BACKBONES", "SHIFT_TOLERANT", "Backbone", "shift_tolerant"]


@dataclass(frozen=True)
class Backbone:
    """A network, the file of its weights, how that file's SHA-256 begins, and who publishes it."""

    name: str
    file: str
    sha256: str
    publisher: str = "torchvision"

    def read(self, path: Path) -> bytes:
        """Return the verified bytes of a file.

        Raises
        ------
        ValueError
            If it is not the published one.
        """
        data = path.read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if not found.startswith(self.sha256):
            raise ValueError(
                f"{path} is not {self.name} as {self.publisher} publishes it: its sha256 must "
                f"begin with {self.sha256}; found {found[:16]}..."
            )
        return data


#: by LPIPS' names, in order of preference; torchvision publishes the files, checksums in the names
BACKBONES = {
    "alex": Backbone("AlexNet", "alexnet-owt-7be5be79.pth", "7be5be79"),
    "squeeze": Backbone("SqueezeNet", "squeezenet1_1-b8a52dc0.pth", "b8a52dc0"),
}

#: shift-tolerant LPIPS on AlexNet, in the package that its authors publish; BSD-2
SHIFT_TOLERANT = Backbone(
    "ST-LPIPS",
    "stlpips_pytorch/weights/vST0.0/alex_shift_tolerant.pth",
    "b356b382f96010f77d085ee8343ecd9fd322d0a56e8de2b2d0549fafcad8b9ee",
    "stlpips-pytorch",
)


def shift_tolerant() -> bytes:
    """Return the verified bytes of :data:`SHIFT_TOLERANT`; its package is not imported.

    Raises
    ------
    FileNotFoundError
        If the package is not installed or lacks the file.
    ValueError
        If the file is not the published one.
    """
    package = importlib.util.find_spec("stlpips_pytorch")
    site = Path(package.origin).parents[1] if package and package.origin else Path()
    return SHIFT_TOLERANT.read(site / SHIFT_TOLERANT.file)
