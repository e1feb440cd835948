"""The methods by name: fit to the training rows, predict, judge."""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import kosambi as ko
from kosambi.posterior import Prediction
from reproduction.comparison import descent, published, recipe, scores, variational
from reproduction.comparison.data import Split, load, standardised

MOST_ROWS = 2500
"""Training rows up to which methods of cubic cost are run."""
Predict = Callable[[np.ndarray], Any]
"""New inputs to a `Prediction`, or to the probabilities of label 1."""


@dataclasses.dataclass
class Fitted:
    """What a method made of the training rows."""

    predict: Predict
    facts: dict[str, Any]
    more: Callable[[], dict[str, Any]] = dict
    """What else is worth keeping; not part of the time."""


def measure(
    data: str, likelihood: str, method: str, seed: int, limit: float = 60.0, subsets: int = 3
) -> dict[str, Any]:
    """One cell: fit a method to one split, with its seconds (compilation included), and judge it.

    Arguments:
        data: name of the data set.
        likelihood: "gaussian", "student_t" or "bernoulli".
        method: a key of `METHODS`.
        seed: of the split.
        limit: seconds that the training of a rival may take.
        subsets: of the paper's recipe; see `recipe.learn`.
    """
    split = load(data, seed)
    fit = METHODS[method]
    _import_all(method)
    began = time.perf_counter()
    fitted = fit(split, likelihood, seed, limit, subsets)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    test = fitted.predict(split.test.x)
    if likelihood == "bernoulli":
        found = scores.of_labels(_probability(test), split.test.y)
        predicting = time.perf_counter() - began
    else:
        test.log_density(split.test.y)
        predicting = time.perf_counter() - began
        validation = fitted.predict(split.validation.x)
        found = scores.of_numbers(validation, split.validation.y, test, split.test.y, seed)
    rounded = {name: float(f"{value:.6g}") for name, value in found.items()}
    times = {"seconds": round(seconds, 3), "predict_seconds": round(predicting, 3)}
    facts = {"N": len(split.train.y), **({"limit": limit} if method.startswith("svgp") else {})}
    return {**rounded, **times, **facts, **fitted.facts, **fitted.more()}


def _import_all(method: str) -> None:
    """Load packages before the clock starts."""
    names = ["kosambi.estimators", "kosambi.inference", "scipy.stats", "sklearn.cluster"]
    names += ["sklearn.gaussian_process", "sklearn.linear_model"]
    if method.startswith("svgp"):
        names += ["gpytorch"]
        variational.use_same_machine()
    for name in names:
        importlib.import_module(name)


def _probability(found: Any) -> np.ndarray:
    return np.asarray(found.probability if isinstance(found, Prediction) else found)


def _default(split: Split, likelihood: str, seed: int, number: int | str) -> Fitted:
    if likelihood == "bernoulli":
        model: Any = ko.ProjectedLangevinClassifier(n_inducing=number, random_state=seed)
    else:
        model = ko.ProjectedLangevinRegressor(likelihood, n_inducing=number, random_state=seed)
    model.fit(split.train.x, split.train.y)
    report = model.report_
    facts = {
        "M": model.posterior_.basis.size,
        "steps": report.steps,
        "converged": bool(report.converged and model.fit_report_.converged),
        "compile_seconds": round(report.compile_seconds + model.fit_report_.compile_seconds, 3),
    }
    return Fitted(model.predict_distribution, facts)


def default(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """The estimator of kosambi as it comes."""
    del limit, subsets
    return _default(split, likelihood, seed, "auto")


def default_at_root(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """The same with int(√N) inducing points."""
    del limit, subsets
    return _default(split, likelihood, seed, root(split))


def faithful(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """The paper's recipe, sampled without error."""
    del limit
    return _recipe(split, likelihood, seed, subsets, both_starts=True)


def from_code(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """The same with a kernel learned from the start of the paper's code alone."""
    del limit
    return _recipe(split, likelihood, seed, subsets, both_starts=False)


def _recipe(split: Split, likelihood: str, seed: int, subsets: int, *, both_starts: bool) -> Fitted:
    model = recipe.learn(split.train, likelihood, seed, subsets, both_starts=both_starts)
    posterior = recipe.posterior(model, split.train, seed)
    assert posterior.report is not None
    facts = {
        "M": model.basis.size,
        "steps": posterior.report.steps,
        "converged": bool(posterior.report.converged and model.converged),
        "smallest_eigenvalue": float(np.min(model.basis.eigenvalues)),
        "subsets": subsets,
        "sampler": posterior.report.sampler,
        "parameters": recipe.parameters(model),
    }
    return Fitted(
        posterior.predict, facts, lambda: {"code": published.variants(posterior, split, seed, model.exact_noise)}
    )


def svgp_paper(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """GPyTorch's SVGP as the paper runs it."""
    model = recipe.learn(split.train, likelihood, seed, subsets)
    began = time.perf_counter()
    trained = descent.as_paper(split.train, likelihood, model, limit)
    facts = {**trained.facts, "training_seconds": round(time.perf_counter() - began, 3)}
    return Fitted(variational.predictor(trained, likelihood), facts)


def svgp(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """GPyTorch's SVGP as a practitioner would run it, with int(√N) inducing points."""
    del subsets
    return _practitioner(split, likelihood, seed, limit, root(split))


def svgp_512(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """The same with 512 inducing points, or N where that is less."""
    del subsets
    return _practitioner(split, likelihood, seed, limit, min(512, len(split.train.y)))


def exact(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """The exact Gaussian process: Matérn-5/2 with a lengthscale per column, by its marginal likelihood."""
    del likelihood, limit, subsets
    x, y = standardised(split).train
    kernel, noise, report = ko.fit_hyperparameters(
        jax.random.key(seed),
        ko.kernels.Matern52(np.ones(x.shape[1]), 1.0, active_dims=None),
        ko.likelihoods.Gaussian(),
        x,
        y,
        method="paper",
        max_rows=MOST_ROWS,
    )
    key = jax.random.fold_in(jax.random.key(seed), 2**30)
    posterior = ko.infer(key, kernel, noise, x, y, inducing_points=np.unique(x, axis=0))
    facts = {"M": posterior.basis.size, "converged": bool(report.converged)}
    return _on_standardised(split, posterior.predict, facts)


def laplace(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """The Gaussian process classifier of scikit-learn: Laplace's approximation, one lengthscale."""
    del likelihood, limit, subsets
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    x, y = standardised(split).train
    model = GaussianProcessClassifier(1.0 * RBF(np.sqrt(x.shape[1])), random_state=seed).fit(x, y)
    return _on_standardised(split, lambda new: model.predict_proba(new)[:, 1], {"converged": True})


def logistic(split: Split, likelihood: str, seed: int, limit: float, subsets: int) -> Fitted:
    """Logistic regression of scikit-learn with its default penalty."""
    del likelihood, seed, limit, subsets
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=2000).fit(*standardised(split).train)
    return _on_standardised(split, lambda new: model.predict_proba(new)[:, 1], {"converged": True})


def _practitioner(split: Split, likelihood: str, seed: int, limit: float, number: int) -> Fitted:
    trained = variational.as_practitioner(standardised(split).train, likelihood, number, seed, limit)
    return _on_standardised(split, variational.predictor(trained, likelihood), trained.facts)


def _on_standardised(split: Split, predict: Predict, facts: dict[str, Any]) -> Fitted:
    mean, deviation = split.train.x.mean(axis=0), split.train.x.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return Fitted(lambda x: predict((x - mean) / deviation), facts)


def root(split: Split) -> int:
    """int(√N)."""
    return int(np.sqrt(len(split.train.y)))


METHODS: dict[str, Callable[[Split, str, int, float, int], Fitted]] = {
    "faithful": faithful,
    "from_code": from_code,
    "kosambi_root": default_at_root,
    "kosambi": default,
    "svgp_paper": svgp_paper,
    "svgp": svgp,
    "svgp_512": svgp_512,
    "exact": exact,
    "laplace": laplace,
    "logistic": logistic,
}
"""What a cell can fit, by the name in its own name."""
LABELS = {
    "faithful": "kosambi, paper's recipe",
    "from_code": "the same, code's start",
    "kosambi_root": "kosambi, M = √N",
    "kosambi": "kosambi",
    "svgp_paper": "SVGP as in the paper",
    "svgp": "SVGP, M = √N",
    "svgp_512": "SVGP, M = 512",
    "exact": "exact GP",
    "laplace": "scikit-learn GP",
    "logistic": "logistic regression",
}
"""What tables and figures call them."""
