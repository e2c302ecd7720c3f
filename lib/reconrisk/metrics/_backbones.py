"""The files of ImageNet weights that LPIPS can stand on, as torchvision publishes them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BACKBONES", "Backbone"]


@dataclass(frozen=True)
class Backbone:
    """A network of LPIPS, the file of its ImageNet weights, and how that file's SHA-256 begins."""

    name: str
    file: str
    sha256: str

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
                f"{path} is not {self.name} as torchvision publishes it: its sha256 must begin "
                f"with {self.sha256}; found {found[:16]}..."
            )
        return data


#: by LPIPS' names, in order of preference; torchvision publishes the files, checksums in the names
BACKBONES = {
    "alex": Backbone("AlexNet", "alexnet-owt-7be5be79.pth", "7be5be79"),
    "squeeze": Backbone("SqueezeNet", "squeezenet1_1-b8a52dc0.pth", "b8a52dc0"),
}
