"""What stands in for the network that the paper has pretrained on ImageNet."""

from companion.exhibit import *
from reconrisk.datasets import LabelledFeatures
from reconrisk.feature_maps import FeatureMap

RANDOM = "random"
NETWORK = Parameter(
    "str",
    RANDOM,
    "EfficientNet-lite0",
    "WRN-28-10, trained on ImageNet at 32x32",
    "the stand-in: random (convolutional features) or EfficientNet-lite0",
)
_PLACE = " in place of the pretrained network"


def network_stand_ins(network: FeatureMap | LabelledFeatures) -> tuple[str, ...]:
    """The stand-ins that a run's tables name for its frozen network; none for the paper's own."""
    return (network.name + _PLACE,) if network.stand_in else ()


def stand_in_network(tables: Tables) -> str:
    """Name of what stands in for the pretrained network; empty if the paper's own was used."""
    found = (s.removesuffix(_PLACE) for s in tables.stand_ins if s.endswith(_PLACE))
    return next(found, "")
