"""What pages say and how they are built, read back with Python's own parser."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import re
import sys
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.page import _effect_sections, _verdict
from tests.cases import cases
from tests.page.models import NAMES, case, page

CASES = ("surface", "curve", "counts", "two", "three")
HEADINGS = (
    "Predictions against the truth",
    "Calibration",
    "Did the sampler converge?",
    "How many inducing points?",
    "Hyperparameters",
    "Warnings",
    "Versions and time",
)
VOID, INLINE = {"meta", "br", "hr", "col"}, {"span", "a"}


class Reader(HTMLParser):
    """Elements and text of a page, with all tags closed in the right order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self._open = [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.words.append("" if tag in INLINE else " ")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("name", cases(CASES, quick=["curve"]))
def test_structure(name):
    found = Reader(page(name))
    assert page(name).startswith("<!doctype html>\n<html lang=")
    assert found.named("html") == [{"lang": "en"}]
    assert len(found.named("h1")) == 1
    assert all(heading in found.text for heading in HEADINGS)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [a["href"] for a in found.named("a")]
    assert targets
    assert {target[1:] for target in targets} <= set(ids)
    assert len(found.named("figure")) == len(found.named("figcaption")) == len(found.named("svg")) >= 4
    assert all(svg["role"] == "img" and len(svg["aria-label"]) > 10 for svg in found.named("svg"))
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page(name))
    assert all(caption.endswith(".") and len(caption) > 30 for caption in captions)


@pytest.mark.parametrize("name", cases(CASES, quick=["curve"]))
def test_nothing_is_fetched_or_run_and_names_stay_text(name):
    found = Reader(page(name))
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "link", "iframe", "img", "b", "i", "object", "form"}
    for tag, attributes in found.elements:
        assert not any(key.startswith("on") for key in attributes)
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#"), tag
    assert "url(" not in re.sub(r"url\(#f\d+-\d+\)", "", page(name))
    assert "@import" not in page(name)
    assert f"A {name} <script>alert(1)</script>" in found.text
    assert "made & measured" in found.text


def test_the_policy_comes_first_and_allows_styles_and_pictures_in_the_page_only():
    text = page("curve")
    policy = next(a["content"] for a in Reader(text).named("meta") if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    # A policy holds for what follows it.
    assert text.index("Content-Security-Policy") < min(text.index("<title"), text.index("<style"), text.index("<body"))


@pytest.mark.slow
def test_names_of_columns_target_and_classes_are_shown_as_they_are():
    text = Reader(page("surface")).text
    assert all(name in text for name in NAMES)
    assert "cost <€>" in text
    text = Reader(page("three")).text
    assert any(f"the probability of {name} moves most" in text for name in case("three").estimator.classes_)


def test_numbers_of_a_regression():
    model, X, y = case("surface")
    text = Reader(page("surface")).text
    assert f"R² {model.score(X, y):.3f}" in text
    error = np.sqrt(np.mean((y - model.predict(X)) ** 2))
    assert f"{error:.4g} units of cost <€>" in text
    lower, upper = model.predict_interval(X)
    assert f"{100 * np.mean((lower <= y) & (y <= upper)):.1f} % of the intervals hold the truth" in text
    train = model.posterior_.target.y
    trivial = -0.5 * np.log(2 * np.pi * train.var()) - (y - train.mean()) ** 2 / (2 * train.var())
    assert f"better by {np.mean(model.predict_log_density(X, y) - trivial):.3g} ±" in text
    assert "nothing had to converge" in text
    assert "independent posterior draws and takes no steps" in text
    lengths = model.posterior_.prior.kernel.lengthscale * model.x_scale_
    assert all(f"{length:.4g}" in text for length in lengths)
    assert str(model.certificate_).splitlines()[0] in text


@pytest.mark.slow
def test_numbers_of_a_classification():
    for name in ("two", "three"):
        model, X, y = case(name)
        text = Reader(page(name)).text
        assert f"right class in {100 * model.score(X, y):.1f} % of cases" in text
        majority = model.classes_[np.bincount(model.posterior_.target.y.astype(int)).argmax()]
        assert f"most frequent class finds {100 * np.mean(y == majority):.1f} %" in text
        assert f"Log loss {-np.mean(model.predict_log_density(X, y)):.4g} nats per row" in text
        assert f"{int(np.sum(model.predict(X) != y))} of {len(y)} are off the diagonal" in text
        assert f"nested R̂ {model.report_.r_hat:.4f}" in text


def test_the_most_influential_input_comes_first_and_the_rest_is_counted(monkeypatch):
    text = Reader(page("surface")).text
    places = [text.index(f"{rank}. {name}: from") for rank, name in enumerate(NAMES[:2], start=1)]
    assert places == sorted(places)
    monkeypatch.setattr(_effect_sections, "MAX_EFFECTS", 1)
    text = Reader(ko.page.render(case("surface").estimator)).text
    assert "1. speed" in text
    assert "2 inputs with less effect are left out." in text


@pytest.mark.parametrize("name", cases(["curve", "counts"], quick=["curve"]))
def test_one_input_is_drawn_as_a_function_in_its_units(name):
    text = Reader(page(name)).text
    assert "The function" in text
    assert "What each input does" not in text
    x = case(name).estimator.posterior_.target.x * case(name).estimator.x_scale_ + case(name).estimator.x_mean_
    assert f"45 training rows lie between {x.min():.4g} and {x.max():.4g}" in text


def test_without_held_out_data():
    found = Reader(ko.page.render(case("curve").estimator))
    assert "Not checked on held-out data" in found.text
    assert found.text.count("No held-out data were given, so this section is left out.") == 2
    assert all(heading in found.text for heading in HEADINGS)
    assert "R²" not in found.text


@pytest.mark.slow
def test_the_same_page_every_time_and_from_several_threads_without_pyplot(monkeypatch):
    model, X, y = case("curve")
    mpl.use("Agg")
    before = mpl.rcParams.copy()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        texts = list(pool.map(lambda _: ko.page.render(model, X, y), range(3)))
    assert texts[0] == texts[1] == texts[2]
    assert mpl.rcParams == before
    dated = ko.page.render(model, X, y, date="1 May")
    assert dated.replace('<p class="source">1 May</p>', "") == texts[0]


@pytest.mark.slow
def test_verdicts(monkeypatch):
    model, X, y = case("curve")
    assert 'class="verdict good"' in page("curve")
    # Noise that the model has not seen.
    wild = y + 3.0 * np.where(np.arange(len(y)) % 2, 1.0, -1.0)
    text = ko.page.render(model, X, wild)
    assert 'class="verdict bad"' in text
    assert "Too sure" in text
    far = ko.page.render(model, X + 1000.0, y)
    assert f"{len(y)} of {len(y)} held-out rows lie well outside the range of the training rows" in far
    report = dataclasses.replace(model.report_, steps=200, converged=False, warnings=("it <did> not",))
    monkeypatch.setattr(model.posterior_, "report", report)
    text = ko.page.render(model, X, y)
    assert "Do not rely on it yet" in text
    assert "The sampler has not converged" in text
    assert "<li>it &lt;did&gt; not</li>" in text


def test_bad_input_is_refused_with_a_remedy():
    model, X, y = case("curve")
    with pytest.raises(InputError, match=r"`estimator` must be a fitted .*Got ProjectedLangevinRegressor. Call `fit`"):
        ko.page.render(ko.ProjectedLangevinRegressor())
    with pytest.raises(InputError, match="`X` and `y` belong together"):
        ko.page.render(model, X)
    with pytest.raises(InputError, match=r"`y` has shape \(3,\) for 45 rows"):
        ko.page.render(model, X, y[:3])
    with pytest.raises(InputError, match=r"`title` must be text or None. Got 3"):
        ko.page.render(model, title=3)


@pytest.mark.slow
def test_bad_input_classes_that_the_model_does_not_know():
    three = case("three")
    with pytest.raises(InputError, match=r"not in the training data: dog. The model knows <i>ant, bee & wasp"):
        ko.page.render(three.estimator, three.X[:2], ["cat", "dog"])


@pytest.mark.slow
def test_noise_that_varies():
    text, report = Reader(page("noise")).text, case("noise").estimator.report_
    assert not report.converged
    assert "Do not rely on it yet" in text
    assert report.warnings[0] in text
    assert "The function" in text
    assert "units of y" in text


@pytest.mark.slow
def test_modes_are_shown_with_their_shares():
    x = np.linspace(-2.0, 2.0, 60)[:, None]
    counts = np.random.default_rng(0).poisson((2.0 + np.sin(x[:, 0])) ** 2)
    model = ko.ProjectedLangevinRegressor(
        ko.likelihoods.Poisson("square"),
        ko.kernels.SquaredExponential(variance=4.0),
        n_inducing=6,
        hyperparameters=None,
    ).fit(x, counts)
    page = ko.page.render(model)
    assert "Functions by mode." in page
    assert "2 modes with particles" in page
    assert "log evidence" in page


@pytest.mark.parametrize(("count", "level"), [(26, 1), (39, 1), (40, 0), (400, 0)])
def test_few_held_out_rows_are_not_called_sound(count, level):
    found = _verdict._of_words("Calibrated, as far as these data can tell.", count)
    assert found.level == level
    if count == 26:
        assert "would not tell 30 % from 70 % inside" in found.sentence
