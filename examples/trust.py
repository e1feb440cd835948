"""How far to trust a posterior: how many inducing points, the certificate, calibration on held-out data, and files.

Run it with `make demo`, or `python examples/trust.py --out demo`; it needs `kosambi[plots]`.
"""

# %% Set-up
import argparse
import tempfile
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np

import kosambi as ko
from kosambi.calibration import calibration_report

mpl.use("Agg")
import matplotlib.pyplot as plt

BLACK, BLUE = "#000000", "#0072B2"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 110,
}


# %% Labels whose log odds are a wave
def draw_labels(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, 1) and labels (N,)."""
    x = generator.uniform(-3.0, 3.0, (num_rows, 1))
    probability = 1.0 / (1.0 + np.exp(-2.0 * np.sin(4.0 * x[:, 0])))
    return x, (generator.uniform(size=num_rows) < probability).astype(float)


def plot_selection(axes: plt.Axes, selection: ko.learning.Selection) -> None:
    """Leave-one-out scores over the number of inducing points, and the number that was taken."""
    best = np.nanmin(selection.score)
    axes.semilogx(selection.sizes, selection.score, "o-", color=BLUE, ms=4, label="leave-one-out")
    axes.axhline(best + selection.tolerance, color=BLACK, lw=0.8, ls="--", label="best + tolerance")
    axes.axvline(selection.num_inducing, color=BLACK, lw=0.8, ls=":", label="taken")
    axes.set_xticks(selection.sizes[::2], [str(size) for size in selection.sizes[::2]])
    axes.minorticks_off()
    axes.set(xlabel="inducing points", ylabel="negative log density per observation", title="How many points")
    axes.legend(fontsize="small")


def check_file(posterior: ko.Posterior, x_new: np.ndarray) -> None:
    """Save, load, and compare predictions bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.kosambi"
        posterior.save(path)
        again, size = ko.load(path), path.stat().st_size
    if not np.array_equal(again.predict(x_new).probability, posterior.predict(x_new).probability):
        raise AssertionError("the posterior in the file predicts other numbers")
    print(f"saved and loaded again, {size / 1024:.0f} kB: predictions are equal bit for bit")


def main(folder: Path) -> None:
    """Fit, judge, save and load; write the picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    key_fit, key_pit = jax.random.split(jax.random.key(0))
    generator = np.random.default_rng(0)
    x, y = draw_labels(generator, 300)
    x_test, y_test = draw_labels(generator, 300)

    kernel = ko.kernels.Matern52(lengthscale=0.4, variance=2.0)
    posterior = ko.infer(key_fit, kernel, ko.likelihoods.Bernoulli(), x, y, num_inducing="auto", num_particles=1000)
    print(posterior)
    print(posterior.selection)
    print(posterior.certificate())
    # With two labels, sets of higher levels hold both nearly everywhere and say little.
    report = calibration_report(posterior.predict(x_test), y_test, key_pit, levels=(0.5, 0.6, 0.7, 0.8))
    print(report)
    check_file(posterior, x_test)

    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
        plot_selection(left, posterior.selection)
        ko.plots.calibration(report, axes=right)
        right.set_title("Held-out labels")
        figure.savefig(folder / "trust.png")
        plt.close(figure)
    print(f"how many points are enough, and calibration: {folder / 'trust.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().out)
