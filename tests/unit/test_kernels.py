"""The same machine code on every processor: what the environment asks of the libraries."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from companion.kernels import SAME_KERNELS, kernels_in_use, set_kernels, take_products


def _printed(code: str, **changed: str) -> str:
    """What Python prints in an environment with the same kernels, but what is changed."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | SAME_KERNELS | changed,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def test_libraries_take_the_kernels_of_a_processor_with_avx2():
    """On a machine without it there is nothing to switch off."""
    asked = (
        "import numpy, torch\n"
        "from numpy._core._multiarray_umath import __cpu_features__ as features\n"
        "print(torch.backends.cpu.get_cpu_capability(), features['X86_V4'])"
    )
    capability, wider = _printed(asked).split()
    assert capability in ("AVX2", "DEFAULT") and wider == "False"


def test_tests_take_them_too():
    """With or without workers, whose environment their parent has set: NumPy comes after it."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    refused = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    assert not any(features[name] for name in refused)
    assert refused or os.environ.get("RECONRISK_KERNELS", "fixed") != "fixed"


# Products ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "taken"), [("numpy", "True"), ("", "False")])
def test_products_are_numpys_where_the_environment_asks_for_it(asked, taken):
    """Whether PyTorch is imported before or after, or somebody has only looked for it."""
    imports = ["import torch", "import companion.study, companion.kernels as k"]
    for first, then in (imports, reversed(imports)):
        code = f"import importlib.util as u; {first}; u.find_spec('torch'); {then}"
        found = _printed(f"{code}; print(bool(k._registered))", RECONRISK_PRODUCTS=asked)
        assert found.split() == [taken]


def test_the_products_are_those_asked_for_when_asked():
    """Whatever the variable says at PyTorch's import, and if the module is loaded again before."""
    code = (
        "import importlib, os, companion.study, companion.kernels as k\n"
        "importlib.reload(k).take_products(); taken, own = set(), k._elementwise\n"
        "k._elementwise = lambda name: taken.add(name) or own(name)\n"
        "del os.environ['RECONRISK_PRODUCTS']; import torch; print(*sorted(taken))"
    )
    assert _printed(code, RECONRISK_PRODUCTS="numpy").split() == ["log", "sqrt"]
    assert _printed(code, RECONRISK_PRODUCTS="products").split() == []


@pytest.fixture
def products(monkeypatch):
    """NumPy makes the products, once for all tests of this process."""
    monkeypatch.setenv("RECONRISK_PRODUCTS", "numpy")
    take_products()


def _drawn(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 7), (7, 4), (5, 4), (3, 5, 7), (3, 7, 4), (3, 5, 4)]
    return [torch.randn(s, generator=generator, dtype=dtype) for s in shapes]


def _expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product by its definition: products of entries, summed."""
    return (a[..., :, :, None] * b[..., None, :, :]).sum(dim=-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_products_are_sums_of_products(products, dtype):
    # of whole numbers: without rounding
    a, b, _, many, others, _ = ((10 * t).round().to(dtype) for t in _drawn(torch.float64))
    for one, other in ((a, b), (many, others), (many, b), (b.mT, a.mT), (many[:1], others[:1])):
        assert torch.equal(one @ other, _expected(one, other))
    assert torch.equal(many[:1].expand(3, 5, 7) @ others, _expected(many[:1], others))
    assert (a[:0] @ b).shape == (0, 4) and not (a[:, :0] @ b[:0]).any()


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.3, 2.0), (0, 0.5)])
def test_sums_with_products_count_both_parts(products, beta, alpha):
    a, b, c, many, others, sums = _drawn(torch.float64)
    c[0, 0] = sums[0, 0, 0] = torch.nan if beta == 0 else 1.0  # beta = 0 leaves it unread
    by = {"beta": beta, "alpha": alpha}
    for added, one, other, name in ((c, a, b, "addmm"), (sums, many, others, "baddbmm")):
        kept = torch.zeros_like(added) if beta == 0 else beta * added
        wanted = kept + alpha * _expected(one, other)
        torch.testing.assert_close(getattr(torch, name)(added, one, other, **by), wanted)
        into = torch.empty(0, dtype=torch.float64)
        getattr(torch, name)(added, one, other, **by, out=into)
        torch.testing.assert_close(into, wanted)
        held = added.clone()
        assert getattr(held, f"{name}_")(one, other, **by) is held
        torch.testing.assert_close(held, wanted)


def test_a_product_is_written_into_what_is_given(products):
    a, b, _, many, others, _ = _drawn(torch.float32)
    for one, other in ((a, b), (many, others)):
        into = torch.empty(0)
        assert torch.matmul(one, other, out=into) is into
        torch.testing.assert_close(into, _expected(one, other))


def test_products_have_their_derivatives(products):
    """First and second ones, and those of torch.func, of |AB|^2: 2 A B B^T, and along A again."""
    a, b = _drawn(torch.float64)[:2]

    def length(x: torch.Tensor) -> torch.Tensor:
        return (x @ b).square().sum()

    x = a.clone().requires_grad_()
    (first,) = torch.autograd.grad(length(x), x, create_graph=True)
    (second,) = torch.autograd.grad((first * a).sum(), x)
    wanted = 2 * a @ b @ b.mT
    torch.testing.assert_close(first.detach(), wanted)
    torch.testing.assert_close(second, wanted)
    many = torch.func.vmap(torch.func.grad(length))(torch.stack([a, -a]))
    torch.testing.assert_close(many, torch.stack([wanted, -wanted]))


def test_products_are_bit_for_bit_numpys(products):
    a, b = _drawn(torch.float32)[:2]
    assert np.array_equal((a @ b).numpy(), a.numpy() @ b.numpy())


def test_conjugates_are_resolved(products):
    z = torch.view_as_complex(_drawn(torch.float64)[2].reshape(5, 2, 2))
    torch.testing.assert_close(z @ z.mH, _expected(z, z.mH.resolve_conj()))


def test_overflow_is_infinite_and_silent(products):
    """As in PyTorch's own products, which a diverging training relies on."""
    large = torch.full((2, 2), 1e30)
    assert torch.isinf(large @ large).all()


# Square roots and logarithms ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sqrt", "log"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_roots_and_logarithms_are_the_nearest_numbers(products, name, dtype):
    """As from higher precision, and so the same on every processor; MKL's are one bit off."""
    x = torch.rand(1000, generator=torch.Generator().manual_seed(0), dtype=dtype) + 1e-3
    exact = getattr(np, name)(x.numpy().astype(np.longdouble)).astype(x.numpy().dtype)
    assert np.abs(getattr(torch, name)(x).numpy() - exact).max() <= np.spacing(np.abs(exact)).max()
    if dtype is torch.float32:
        assert np.array_equal(getattr(torch, name)(x).numpy(), exact)


def test_roots_and_logarithms_keep_what_pytorch_promises(products):
    x = torch.tensor([[4.0, -1.0], [0.0, 9.0]])
    torch.testing.assert_close(
        x.sqrt(), torch.tensor([[2.0, torch.nan], [0.0, 3.0]]), equal_nan=True
    )
    assert x.T.sqrt().stride() == x.T.stride() and x[0, 0].sqrt().shape == ()
    assert torch.tensor([4]).sqrt().dtype == torch.get_default_dtype()
    assert x.log()[1, 0] == -torch.inf and x[0, 0].exp().log().item() == 4
    into, held = torch.empty(0), x.clone()
    assert torch.sqrt(x[1], out=into) is into and held.log_() is held
    torch.testing.assert_close(held, x.log(), equal_nan=True)
    y = torch.tensor([0.25, 4.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(y.sqrt().sum() + y.log().sum(), y, create_graph=True)
    torch.testing.assert_close(first.detach(), 0.5 / y.detach().sqrt() + 1 / y.detach())
    z = torch.view_as_complex(torch.tensor([[-1.0, 0.0]]))
    torch.testing.assert_close(torch.view_as_real(z.sqrt()), torch.tensor([[0.0, 1.0]]))


# Which set ---------------------------------------------------------------------------------------


def test_what_the_environment_has_stays_and_is_named(monkeypatch):
    for name in SAME_KERNELS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    assert set_kernels("fixed") == {"OPENBLAS_CORETYPE": "Zen"}
    assert kernels_in_use() == SAME_KERNELS | {"OPENBLAS_CORETYPE": "Zen"}
    with pytest.raises(ValueError, match="kernels must be one of fixed, mkl, own, plain; got 'x'"):
        set_kernels("x")


def test_own_kernels_set_nothing_and_plain_ones_set_threads(monkeypatch):
    for name in (*SAME_KERNELS, "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert set_kernels("own") == {} and kernels_in_use() == {}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert set_kernels("plain") == {} and os.environ["OMP_NUM_THREADS"] == "2"
