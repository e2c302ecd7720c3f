"""One folder a paper, one file an exhibit; found by their names.

``COMPANION_PAPERS`` names further folders of papers, separated as in ``PATH``; they come first.
"""

import os

__path__[:0] = filter(None, os.environ.get("COMPANION_PAPERS", "").split(os.pathsep))
