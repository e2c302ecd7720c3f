"""Attackers of our own exhibits who use all that they are granted."""

import torch

from companion.papers.beyond import priors
from reconrisk import DPSGD, attacks, datasets


def test_the_clipping_factor_names_digits_at_any_noise():
    listed = torch.as_tensor(datasets.classified("MNIST-5000", split="all").inputs)
    records, run = listed[4500:].double(), DPSGD(100.0, max_grad_norm=0.1)
    seen = attacks.observe(records, run, torch.Generator().manual_seed(0))
    named = priors.named_by_factor(run.max_grad_norm / seen.scale, listed.double())
    assert torch.equal(named, torch.arange(4500, 5000))


def test_norms_name_the_nearest_listed_record():
    listed = torch.diag(torch.tensor([3.0, 1.0, 2.0]))
    norms = torch.tensor([0.2, 1.4, 1.6, 2.6, 9.0])
    assert priors.named_by_factor(norms, listed).tolist() == [1, 1, 2, 0, 0]
