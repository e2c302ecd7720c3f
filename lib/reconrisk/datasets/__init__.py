"""The data of the experiments: the papers' own, parts of them, stand-ins, or a reader's images.

Pictures are float arrays (count, height, width, 3) in [0, 1]; labelled images are flat vectors
with their labels (:class:`LabelledImages`). No function downloads or writes a file.

The official files of MNIST, Fashion-MNIST and CIFAR-10 are verified against their published
checksums before they are parsed (``DATA_SETS``). A missing, damaged or wrong file raises
``FileNotFoundError``, another ``OSError`` or ``ValueError``, which names the file, what was found
and what was expected.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from reconrisk.datasets._bundled import PHOTOGRAPHS, digits
    from reconrisk.datasets._classified import BUNDLED, CLASSIFIED, classified
    from reconrisk.datasets._decode import EXTENSIONS
    from reconrisk.datasets._features import WEIGHTS_FILE, feature_map, features
    from reconrisk.datasets._known import DATA_SETS, DataSet, KnownFile
    from reconrisk.datasets._labelled import LabelledFeatures, LabelledImages, grey_at
    from reconrisk.datasets._own import HALVES, MOST_OUTPUTS, OWN, SMALL, own_images, own_listing
    from reconrisk.datasets._photographs import folder_photographs, is_imagenet, pictures
    from reconrisk.datasets._samples import IMAGENET_SAMPLE, SAMPLES, Sample
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "BUNDLED",
    "CLASSIFIED",
    "DATA_SETS",
    "EXTENSIONS",
    "HALVES",
    "IMAGENET_SAMPLE",
    "MOST_OUTPUTS",
    "OWN",
    "PHOTOGRAPHS",
    "SAMPLES",
    "SMALL",
    "WEIGHTS_FILE",
    "DataSet",
    "KnownFile",
    "LabelledFeatures",
    "LabelledImages",
    "Sample",
    "classified",
    "digits",
    "feature_map",
    "features",
    "folder_photographs",
    "grey_at",
    "is_imagenet",
    "own_images",
    "own_listing",
    "pictures",
]
