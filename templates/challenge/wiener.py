"""Mean and covariance: the best affine estimate."""

import numpy as np


def rebuild(releases, sigma, others):
    directions = others / np.linalg.norm(others, axis=1, keepdims=True)
    mean, spread = directions.mean(axis=0), np.cov(directions.T)
    # records regress on directions, directions on releases
    noisy = spread + sigma**2 * np.eye(len(mean))
    cross = (others - others.mean(axis=0)).T @ (directions - mean) / len(others)
    return others.mean(axis=0) + (releases - mean) @ np.linalg.solve(noisy, cross.T)
