"""One table of all public kernels, measures, priors and bases; the conformance tests walk through it."""

from __future__ import annotations

import numpy as np

import kosambi as ko

k = ko.kernels

# Each kernel on three columns, with every parameter away from its default.
KERNELS = {
    "SquaredExponential": k.SquaredExponential(lengthscale=[0.7, 1.1, 2.0], variance=1.7),
    "Matern12": k.Matern12(lengthscale=0.9, variance=0.6),
    "Matern32": k.Matern32(lengthscale=[0.7, 1.1, 2.0], variance=1.3),
    "Matern52": k.Matern52(lengthscale=1.2, variance=2.0, active_dims=[0, 2]),
    "RationalQuadratic": k.RationalQuadratic(lengthscale=0.8, variance=1.4, alpha=0.7),
    "Periodic": k.Periodic(lengthscale=0.9, variance=0.8, period=[1.5, 2.5, 3.5]),
    "Linear": k.Linear(variance=[0.5, 1.0, 2.0]),
    "Constant": k.Constant(variance=0.3),
    "Coregionalization": k.Coregionalization([[0.9, 0.2], [-0.4, 0.7]], own_variance=[0.3, 0.5], column=1),
    "Sum": k.Matern52(lengthscale=0.5) + k.Linear(variance=0.2) + 0.1,
    "Product": 2.0 * k.SquaredExponential(active_dims=[0]) * k.Periodic(period=2.0, active_dims=[1]) * k.Linear(),
}

X3 = np.random.default_rng(7).normal(size=(12, 3))
Z3 = np.random.default_rng(8).normal(size=(5, 3))

MEASURES = {
    "PointMeasure": ko.measures.points(X3, np.linspace(1.0, 2.0, 12)),
    "GaussianMeasure": ko.measures.gaussian([0.1, 0.2, -0.3], np.diag([1.0, 0.5, 2.0]) + 0.1),
    "MixtureMeasure": ko.measures.mixture(
        [ko.measures.empirical(X3), ko.measures.gaussian(np.zeros(3), 4.0 * np.eye(3))], weights=[0.8, 0.2]
    ),
}

_SE = KERNELS["SquaredExponential"]
PRIORS = {
    "GaussianProcess": ko.GaussianProcess(KERNELS["Sum"], mean=0.5),
    "GaussianRandomElement": ko.GaussianRandomElement(KERNELS["Matern32"], MEASURES["PointMeasure"], mean=-1.0),
    "GaussianRandomElement, normal measure": ko.GaussianRandomElement(_SE, MEASURES["GaussianMeasure"]),
    "GaussianRandomElement, mixture": ko.GaussianRandomElement(3.0 * _SE, MEASURES["MixtureMeasure"]),
}

# Every basis with points, and with a normal measure, for which the code takes another way.
BASES = {
    f"{basis.__name__} | {name}": basis(PRIORS[name], Z3)
    for name in ("GaussianRandomElement", "GaussianRandomElement, normal measure")
    for basis in (ko.NystromBasis, ko.RitzBasis, ko.InducingBasis, ko.PointBasis)
} | {"PointBasis | GaussianProcess": ko.PointBasis(PRIORS["GaussianProcess"], Z3)}
