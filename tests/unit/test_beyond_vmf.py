"""The exhibit on attackers who know VMF noise, and the directions that such attackers compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from companion.papers.beyond import vmf_rero
from reconrisk.attacks import candidate_directions


def test_candidates_are_directions_of_the_whole_batch():
    generator = torch.Generator().manual_seed(1)
    known, gradients = torch.randn(20, generator=generator), torch.randn(3, 20, generator=generator)
    found = candidate_directions(known, gradients)
    for direction, own in zip(found, gradients, strict=True):
        assert torch.allclose(direction, (known + own) / (known + own).norm())
    # alone in its batch, a candidate's direction is its gradient's
    alone = candidate_directions(torch.zeros(20), gradients)
    assert torch.allclose(alone, gradients / gradients.norm(dim=1)[:, None])


def test_unprinted_noise_is_refused():
    with pytest.raises(ValueError, match="Table IV"):
        vmf_rero.run_curves(0.5, np.array([0.1]))
