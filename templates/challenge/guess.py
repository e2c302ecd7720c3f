"""Guessing: a random candidate, and the mean of the other records."""

import numpy as np


def name(releases, sigma, candidates):
    return np.random.default_rng(0).integers(len(candidates), size=len(releases))


def rebuild(releases, sigma, others):
    return np.broadcast_to(others.mean(axis=0), releases.shape)
