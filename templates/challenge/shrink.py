"""No prior: the release, shrunk, at the others' mean length."""

import numpy as np


def rebuild(releases, sigma, others):
    length = np.linalg.norm(others, axis=1).mean()
    return length * releases / (1 + releases.shape[1] * sigma**2)
