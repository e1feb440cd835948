"""Files that kosambi 0.1.0 wrote load, and predict what they predicted then.

`golden/0.1.0` holds each file beside the numbers that 0.1.0 computed from it, and the classes and fields that its files
could hold.
"""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.files._older import CLASSES, FIELDS, declared_defaults, present_fields, present_name
from kosambi.files._registry import fields_of, registry

GOLDEN = Path(__file__).parent / "golden" / "0.1.0"
NEW = np.linspace(-2.5, 2.5, 7)[:, None]
NEW2 = np.array([[0.0, 0.3], [-1.2, 0.9], [2.0, -2.0]])


def log_cosh(y, f):
    return jnp.log(jnp.cosh(y - f))


def trend(x):
    return 0.5 * x[:, 0]


def moments(posterior, new):
    prediction = posterior.predict(new)
    return {"mean": prediction.mean, "variance": prediction.variance}


def observations(posterior, new):
    prediction = posterior.predict(new)
    lower, upper = prediction.interval(0.9)
    found = {"observation_mean": prediction.observation_mean, "lower": lower, "upper": upper}
    return moments(posterior, new) | found


def gaussian_exact(value):
    posterior = value["posterior"]
    assert posterior.report.sampler == "exact"
    assert posterior.particles.distribution is not None
    assert posterior.selection.num_inducing == posterior.basis.size
    np.testing.assert_allclose(value["prediction"].mean, posterior.predict(NEW).mean, rtol=1e-12)
    assert value["certificate"].bounds is not None or np.isfinite(value["certificate"].divergence)
    evidence = {"log_evidence": float(posterior.log_evidence)}
    return observations(posterior, NEW) | evidence | {"draws": value["draws"](NEW)}


def bernoulli_mala(posterior):
    assert posterior.report.converged
    assert posterior.target.kind == "optimal"
    return moments(posterior, NEW) | {"probability": posterior.predict(NEW).probability}


def poisson_ritz(value):
    posterior, draws = value
    assert isinstance(posterior.basis, ko.RitzBasis)
    assert posterior.target.weights is not None
    with pytest.warns(ko.errors.SupportWarning, match="1 of 3 new inputs"):
        found = observations(posterior, NEW2)
    return found | {"draws": draws(NEW2)}


def categorical(posterior):
    return moments(posterior, NEW) | {"probabilities": posterior.predict(NEW).probability}


def tempering(posterior):
    ladder = posterior.report.ladder
    evidence = {"log_evidence": float(posterior.log_evidence), "betas": ladder.betas}
    assert ladder.reason == "asked for"
    return observations(posterior, NEW) | evidence


def regressor(model):
    mean, std = model.predict(NEW2, return_std=True)
    draws = model.sample_y(NEW2, n_samples=3, random_state=1)
    return {"mean": mean, "std": std, "interval": model.predict_interval(NEW2, coverage=0.9), "draws": draws}


def classifier(model):
    assert model.classes_.tolist() == ["inside", "outside"]
    assert model.feature_names_in_.tolist() == ["width", "height"]
    return {"probabilities": model.predict_proba(pd.DataFrame(NEW2, columns=["width", "height"]))}


def calibration(value):
    conformal, new = value["conformal"], value["posterior"].predict(NEW)
    tempered = value["tempering"]
    assert value["report"].coverage.levels.shape == value["coverage"].levels.shape
    return {
        "conformal": conformal.interval(new),
        "share": value["coverage"].share,
        "tempering": [tempered.factor, tempered.nll_after],
        "matheron": value["matheron"](NEW),
    }


def custom(posterior):
    return moments(posterior, NEW)


def parts(value):
    assert len(value["kernels"]) == 4
    assert len(value["likelihoods"]) == 9
    assert value["samplers"][0].max_steps == 77
    return {
        "nystrom": value["nystrom"].conditional_mean(NEW2),
        "inducing": value["inducing"].conditional_mean(NEW2),
    }


CASES = {
    function.__name__: function
    for function in (
        gaussian_exact,
        bernoulli_mala,
        poisson_ritz,
        categorical,
        tempering,
        regressor,
        classifier,
        calibration,
        custom,
        parts,
    )
}
# Probabilities of several classes were another quadrature then, right to fewer digits.
TOLERANCES = {("categorical", "probabilities"): 1e-6}
OWN = {"custom": {"log_cosh": log_cosh, "trend": trend}}


@pytest.mark.parametrize("name", CASES)
def test_what_version_0_1_0_wrote_predicts_the_same(name, tmp_path):
    value = ko.load(GOLDEN / f"{name}.kosambi", OWN.get(name))
    expected = np.load(GOLDEN / f"{name}.npz")
    found = CASES[name](value)
    assert set(found) == set(expected) - {"gram"}
    for entry, numbers in found.items():
        tolerance = TOLERANCES.get((name, entry), 1e-12)
        np.testing.assert_allclose(numbers, expected[entry], rtol=tolerance, atol=tolerance, err_msg=entry)
    # And it can be written again, in the format of today.
    ko.save(value, tmp_path / "again.kosambi")
    ko.load(tmp_path / "again.kosambi", OWN.get(name))


def test_every_file_has_a_test():
    assert {path.stem for path in GOLDEN.glob("*.kosambi")} == set(CASES)


def test_every_class_of_version_0_1_0_can_be_read():
    for name, fields in json.loads((GOLDEN / "classes.json").read_text()).items():
        now = present_name(name)
        assert now in registry(), name
        known = fields_of(registry()[now])
        kept, _ = present_fields(now, dict.fromkeys(fields))
        assert set(kept) <= set(known), name
        assert set(known) - set(kept) <= set(declared_defaults(registry()[now])), name


def test_the_table_names_what_there_is():
    assert set(CLASSES.values()) <= set(registry())
    for name, fields in FIELDS.items():
        assert set(fields.values()) <= set(fields_of(registry()[name]))


def test_a_run_of_version_0_1_0_predicts_the_same(tmp_path):
    from typer.testing import CliRunner

    from kosambi.cli._app import app

    out = tmp_path / "p.csv"
    result = CliRunner().invoke(app, ["predict", str(GOLDEN / "run"), str(GOLDEN / "new.csv"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    found, expected = pd.read_csv(out), pd.read_csv(GOLDEN / "predictions.csv")
    assert list(found) == list(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
