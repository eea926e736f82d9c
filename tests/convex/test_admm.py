"""The paper's ADMM: its iterates, its limit, its settings, and the same on torch tensors."""

import itertools
import sys

import numpy as np
import pytest

from dconnet.convex.admm import ADMM, Iteration
from dconnet.convex.native import Native
from dconnet.model.whitening import Whitening
from problems import catalogue, dca_programme, inputs
from tolerances import KKT, ROUNDING, SOLUTION

CASES = catalogue()
SOME = ["typical 40x4 gamma=0.1 alpha=1", "typical 30x27 gamma=0.1 alpha=1", "known solution, 3 kinked rows"]
TIGHT = ADMM(rho=3.0, tol=1e-12, max_iter=50_000)


class PaperADMM:
    """The paper's two algorithms with its m x m matrix V, in its own units, and with M = √m Q unless M is given."""

    def __init__(self, programme, rho, relaxation, M=None):
        scale = np.sqrt(len(programme.design)) if M is None else 1.0
        self.M = scale * programme.design if M is None else M
        self.m, self.p = self.M.shape
        a, gamma, m = programme.curvature, programme.gamma, self.m
        self.rho, self.relaxation = rho, relaxation
        # The paper's QP is m times smaller; beta and d for rows of M, whose preactivations are larger by this scale.
        beta, d = scale * programme.slope / m, scale * programme.design @ programme.linear / m
        self.q = np.concatenate([beta - d, d, np.zeros(2 * self.p)])
        q1, q2, q3 = 2 * (a + gamma) / m + rho, -2 * gamma / m, 2 * gamma / m + rho
        self.g1, self.g2, self.g3 = (entry / (q1 * q3 - q2**2) for entry in (q3, -q2, q1))
        xi1, xi2 = np.sqrt(self.g1), self.g2 / np.sqrt(self.g1)
        xi3, xi4 = np.sqrt((self.g1 * self.g3 - self.g2**2) / self.g1), np.sqrt(1 / rho)
        _, sigma, Vt = np.linalg.svd(self.M.T, full_matrices=True)
        self.V = Vt.T  # (m, m)
        squares = np.concatenate([sigma**2, np.zeros(m - self.p)])
        self.D = (xi2 - xi1) ** 2 + xi3**2 + 2 * xi4**2 * squares

    def evaluate(self, w):
        """The paper's second algorithm, line by line."""
        w1, w2, w3, w4 = np.split(w, [self.m, 2 * self.m, 2 * self.m + self.p])
        h1, h2 = self.g1 * w1 + self.g2 * w2, self.g2 * w1 + self.g3 * w2
        h3, h4 = w3 / self.rho, w4 / self.rho
        e1 = self.V @ ((self.V.T @ (h2 - h1)) / self.D)
        f1 = self.M.T @ e1
        e2 = self.V @ ((self.V.T @ (self.M @ (h3 - h4))) / self.D)
        f2 = self.M.T @ e2
        v1, v2 = h1 - (self.g2 - self.g1) * (e1 + e2), h2 - (self.g3 - self.g2) * (e1 + e2)
        return np.concatenate([v1, v2, h3 - (f1 + f2) / self.rho, h4 + (f1 + f2) / self.rho])

    def iterates(self, count):
        """The paper's first algorithm, with over-relaxation: v, z and u after each iteration."""
        z = u = np.zeros(2 * self.m + 2 * self.p)
        found = []
        for _ in range(count):
            v = self.evaluate(self.rho * (z - u) - self.q)
            relaxed = self.relaxation * v + (1 - self.relaxation) * z
            z = np.maximum(0.0, relaxed + u)
            u = u + relaxed - z
            found.append((v, z, u))
        return found


@pytest.mark.parametrize("case", SOME)
@pytest.mark.parametrize(("rho", "relaxation"), [(1.0, 1.4), (1.0, 1.0), (0.2, 1.7)])
def test_iterates_are_those_of_the_papers_square_form(case, rho, relaxation):
    programme = CASES[case].programme
    thin = Iteration(ADMM(rho, relaxation).prepare(programme.design), programme.scaled())
    papers_rho = rho * (programme.curvature + programme.gamma) / len(programme.design)
    state = thin.start()
    for full in PaperADMM(programme, papers_rho, relaxation).iterates(60):
        state = thin.step(state)
        for ours, theirs in zip((state.x, state.z, state.u), full, strict=True):
            assert np.max(np.abs(programme.units[0] * ours - theirs)) <= ROUNDING * np.max(np.abs(full[0]))


@pytest.mark.parametrize("case", SOME)
def test_default_settings_give_three_digits_and_tight_ones_the_solution(case):
    programme = CASES[case].programme
    exact = Native().prepare(programme.design).solve(programme)
    least = programme.value(exact.v)
    answer = ADMM().prepare(programme.design).solve(programme)
    assert answer.converged
    assert programme.value(answer.v) - least <= 1e-3 * (abs(least) + programme.magnitude)
    tight = TIGHT.prepare(programme.design).solve(programme)
    assert tight.converged
    assert tight.kkt_residual(programme) <= KKT
    assert np.max(np.abs(tight.v - exact.v)) <= SOLUTION * np.max(np.abs(exact.v))
    assert ADMM(tol=1e-9).prepare(programme.design).solve(programme, exact).iterations == 1


def test_with_inputs_the_paper_is_taken_literally():
    rng = np.random.default_rng(0)
    M = inputs(rng, 40, 4)
    M = M[np.argsort(M[:, 0])]  # as in a fit
    X, white = M[:, :-1], Whitening.of(M)
    programme = dca_programme(white.Q, rng)
    papers = PaperADMM(programme, rho=1.0, relaxation=1.4, M=M).iterates(500)
    for tol in (1e-2, 1e-3):
        answer = ADMM(tol=tol, inputs=X).prepare(white.Q).solve(programme)
        pairs = itertools.pairwise(papers)
        residuals = [max(np.linalg.norm(v - z), np.linalg.norm(z - before[1])) for before, (v, z, _) in pairs]
        assert answer.iterations == next(k for k, residual in enumerate(residuals) if residual <= tol) + 2
        v3, v4 = np.split(papers[answer.iterations - 1][0][80:], 2)
        np.testing.assert_allclose(answer.v, white.to_white @ (v3 - v4), rtol=1e-9)
    # The limit is the solution, in whatever units.
    tight = ADMM(tol=1e-10, max_iter=500_000, inputs=X).prepare(white.Q).solve(programme)
    assert tight.kkt_residual(programme) <= 1e-6
    with pytest.raises(ValueError, match="inputs of this fit"):
        ADMM(inputs=X[:, :2]).prepare(white.Q)


@pytest.mark.parametrize("option", [{"rho": 0.0}, {"rho": np.nan}, {"relaxation": 2.0}, {"max_iter": 0}, {"tol": -1.0}])
def test_bad_option_is_refused(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} must"):
        ADMM(**option)


def test_missing_torch_is_named_with_its_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'dconnet\[torch\]'"):
        ADMM(device="cpu").prepare(np.eye(2))


@pytest.mark.peers
def test_torch_gives_the_answer_of_numpy():
    pytest.importorskip("torch", reason="ADMM on a device needs torch")
    programme = CASES[SOME[0]].programme
    expected = ADMM().prepare(programme.design).solve(programme)
    answer = ADMM(device="cpu").prepare(programme.design).solve(programme)
    assert answer.iterations == expected.iterations
    assert np.allclose(answer.v, expected.v, rtol=1e-9, atol=1e-12)
    assert np.allclose(answer.multipliers, expected.multipliers, rtol=1e-9, atol=1e-12)
    exact = Native().prepare(programme.design).solve(programme)
    assert ADMM(tol=1e-9, device="cpu").prepare(programme.design).solve(programme, exact).iterations == 1
    for device in ("no such device", "cuda:99"):
        with pytest.raises(ValueError, match="Choose another one, or device=None for NumPy"):
            ADMM(device=device).prepare(np.eye(2))
