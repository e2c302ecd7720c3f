"""One folder a paper, one file an exhibit; found by their names.

``COMPANION_PAPERS`` names further folders of papers outside the checkout, separated as in ``PATH``.
"""

import os

__path__ += [
    folder for folder in os.environ.get("COMPANION_PAPERS", "").split(os.pathsep) if folder
]
