from __future__ import annotations

from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest

import kosambi as ko

# Memory maps of a process above which compiled programs are thrown away: at 65,530 the compiler crashes.
MOST_MAPS = 30_000
# Cases that take long and whose neighbours check the same code on other input; `make test-slow` runs them all.
SLOW = (
    "test_project.py::test_code_in_the_documentation_runs[guide.md]",
    "core/test_precision.py::test_the_same_float64_numbers_with_the_switch_off_and_on_in_new_processes",
    "target/test_target.py::test_optimal_is_the_expectation_over_the_residual[Bernoulli, probit-",
    "samplers/test_run.py::test_several_latent_functions",
    "samplers/test_run.py::test_float32_draws_the_same_law[hmc]",
    "samplers/test_laws.py::test_law_with_one_coordinate",
    "samplers/test_laws.py::test_joint_law_with_two_coordinates[hmc-StudentT]",
    "basis/test_bases.py::test_residual_covariance_is_positive_semi_definite[0-greedy-8]",
    "basis/test_bases.py::test_residual_covariance_is_positive_semi_definite[0-greedy-34]",
    "priors/test_prior_draws.py::test_random_features_have_the_joint_law_of_the_kernel[Sum",
    "priors/test_prior_draws.py::test_random_features_have_the_joint_law_of_the_kernel[Rational",
    "priors/test_prior_draws.py::test_random_features_have_the_joint_law_of_the_kernel[Matern12]",
    "priors/test_prior_draws.py::test_random_features_have_the_joint_law_of_the_kernel[Matern32]",
    "priors/test_prior_draws.py::test_shared_frequencies_fail_the_joint_test[1024]",
    "priors/test_prior_draws.py::test_random_element_with_a_normal_measure[True]",
    "test_infer.py::test_other_parts_can_be_given",
    "test_infer.py::test_far_from_the_data_in_eight_dimensions[Matern32]",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GP Matern12]",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GP periodic]",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GRE Inducing]",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GRE Point]",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GRE normal]",
    "posterior/test_functions.py::test_variance_of_the_draws_where_little_is_left_open[three columns, smooth]",
    "posterior/test_functions.py::test_variance_of_the_draws_where_little_is_left_open[product of columns]",
    "posterior/test_functions.py::test_variance_of_the_draws_where_little_is_left_open[periodic times smooth]",
    "posterior/test_functions.py::test_variance_of_the_draws_where_little_is_left_open[rational quadratic]",
    "posterior/test_prediction.py::test_summaries_against_simulation[Exponential]",
    "posterior/test_prediction.py::test_summaries_against_simulation[Bernoulli, probit]",
    "posterior/test_prediction.py::test_densities_against_simulation",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GP sum]",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GRE background]",
    "learning/test_faults.py::test_a_cost_of_ones_own_in_any_unit",
    "learning/test_faults.py::test_a_period_is_found",
    "posterior/test_prediction.py::test_summaries_against_simulation[NegativeBinomial]",
    "posterior/test_prediction.py::test_summaries_against_simulation[ShiftMixture]",
    "posterior/test_prediction.py::test_summaries_against_simulation[Poisson, square]",
    "posterior/test_prediction.py::test_summaries_against_simulation[Gamma]",
    "learning/test_faults.py::test_numbers_of_a_mean_are_learned_in_any_unit",
    "posterior/test_certificate.py::test_divergence_against_quadrature_on_a_grid[Bernoulli-1]",
    "posterior/test_certificate.py::test_divergence_against_quadrature_on_a_grid[StudentT-2]",
    "posterior/test_certificate.py::test_divergence_against_quadrature_on_a_grid[Poisson-1]",
    "posterior/test_certificate.py::test_bounds_hold_and_are_ordered[NegativeBinomial]",
    "posterior/test_certificate.py::test_bounds_hold_and_are_ordered[Laplace]",
    "calibration/test_calibration_repairs.py::test_tempered_laws_can_be_judged",
    "calibration/test_calibration.py::test_crps_against_simulation[Gamma]",
    "calibration/test_calibration.py::test_crps_against_simulation[Poisson]",
    "learning/test_fit.py::test_nothing_is_compiled_again_for_data_of_the_same_shape",
    "learning/test_fit.py::test_frozen_tied_and_given_parts_keep_what_they_are",
    "learning/test_fit.py::test_many_rows_use_a_subset_for_the_kernel_and_all_for_the_noise",
    "learning/test_fit.py::test_exact_evidence_and_its_gradient_on_the_host[process]",
    "learning/test_fit.py::test_inducing_points_are_moved_to_where_they_explain_more",
    "learning/test_fit.py::test_known_noise_for_each_datum_is_kept",
    "learning/test_fit.py::test_a_column_that_does_not_matter_gets_a_long_lengthscale",
    "learning/test_faults.py::test_kernels_without_a_derivative_at_zero_distance",
    "learning/test_faults.py::test_duplicated_rows_do_no_harm",
    "learning/test_faults.py::test_units_of_the_data_do_not_matter[1000000.0]",
    "learning/test_evidence.py::test_gradient_against_finite_differences[NegativeBinomial-element]",
    "learning/test_evidence.py::test_gradient_against_finite_differences[Ordinal-process]",
    "priors/test_priors.py::test_blocks_of_rows_change_nothing",
    "core/test_precision.py::test_a_draw_traced_with_the_switch_off_warns_once[draw]",
    "learning/test_selection.py::test_laplace_scores_are_near_those_of_thirty_runs",
    "learning/test_selection.py::test_rough_divergence_is_that_of_the_certificate[StudentT]",
    "test_project.py::test_examples_run[thompson_sampling.py]",
    "test_project.py::test_examples_run[predictions.py]",
    "test_infer.py::test_several_latent_functions",
    "test_infer.py::test_a_background_carries_a_random_element_farther",
    "test_infer.py::test_far_from_the_data_a_gaussian_process_returns_to_its_prior",
    "samplers/test_run.py::test_float32_draws_the_same_law[mala]",
    "samplers/test_laws.py::test_joint_law_with_two_coordinates[hmc-Bernoulli]",
    "samplers/test_convergence.py::test_effective_sample_size_of_an_autoregression[0.0]",
    "core/test_precision.py::test_a_draw_traced_with_the_switch_off_warns_once[evaluate]",
    "test_project.py::test_examples_run[trust.py]",
    "test_project.py::test_examples_run[hyperparameters.py]",
    "learning/test_fit.py::test_exact_evidence_and_its_gradient_on_the_host[element]",
    "learning/test_fit.py::test_parameters_are_found_again[process-three seeds]",
    "learning/test_fit.py::test_the_result_is_a_maximum_and_the_report_says_so[points that carry the model]",
    "cli/test_run_folder.py::test_a_fit_killed_while_writing_leaves_no_run_and_the_next_one_cleans_up",
    "page/test_browser.py::test_a_page_shows_as_it_should[three",
    "page/test_browser.py::test_a_page_shows_as_it_should[surface",
    "page/test_page.py::test_structure[surface]",
    "plots/test_effects.py::test_two_classes_have_one_probability",
    "samplers/test_laws.py::test_joint_law_with_two_coordinates[mala-StudentT]",
    "samplers/test_laws.py::test_joint_law_with_two_coordinates[mala-Poisson, exp]",
    "posterior/test_certificate.py::test_divergence_against_quadrature_on_a_grid[StudentT-1]",
    "posterior/test_certificate.py::test_gaussian_bound_against_dense_linear_algebra[element-0.3]",
    "learning/test_fit.py::test_the_result_is_a_maximum_and_the_report_says_so[too few points]",
    "learning/test_selection.py::test_rough_divergence_is_that_of_the_certificate[Poisson]",
    "samplers/test_tempering.py::test_evidence_of_a_normal_law_in_closed_form",
    "page/test_page.py::test_structure[three]",
    "page/test_page.py::test_structure[two]",
    "page/test_page.py::test_structure[counts]",
    "plots/test_effects.py::test_rates_are_drawn_on_their_own_scale",
    "samplers/test_tempering.py::test_marginals_and_shares_of_modes_against_quadrature[shift]",
    "samplers/test_tempering.py::test_evidence_against_quadrature[shift]",
    "samplers/test_laws.py::test_joint_law_with_two_coordinates[mala-Ordinal]",
    "samplers/test_laws.py::test_joint_law_with_two_coordinates[mala-Gamma]",
    "estimators/test_contract.py::test_probabilities_can_be_calibrated",
    "estimators/test_estimators.py::test_other_likelihoods_by_name[student_t]",
    "estimators/test_estimators.py::test_other_likelihoods_by_name[gamma]",
    "posterior/test_certificate.py::test_divergence_against_dense_computation_with_many_data",
    "learning/test_selection.py::test_doubling_the_choice_does_not_help",
    "learning/test_heavy_tails.py::test_a_kernel_that_outliers_have_spoiled_is_learned_again_with_the_tails",
    "learning/test_heavy_tails.py::test_rows_without_weight_and_frozen_noise",
    "learning/test_heavy_tails.py::test_one_thinned_measure_for_all_evidences_and_few_rows",
    "learning/test_heavy_tails.py::test_a_kernel_for_tails_that_is_not_better_is_not_taken",
    "learning/test_heavy_tails.py::test_the_evidence_is_that_with_every_row_as_a_point[L]",
    "learning/test_twin.py::test_the_start_is_what_gaussian_noise_finds[L]",
    "learning/test_together.py::test_the_bound_is_that_of_what_is_returned_and_no_small_change_raises_it[t]",
    "learning/test_weights.py::test_weights_stand_for_repetitions[Categorical]",
    "learning/test_weights.py::test_weights_stand_for_repetitions[StudentT]",
    "learning/test_evidence.py::test_gradient_against_finite_differences[Bernoulli-element]",
    "estimators/test_estimators.py::test_other_likelihoods_by_name[negative_binomial]",
    "page/test_page.py::test_nothing_is_fetched_or_run_and_names_stay_text[three]",
    "page/test_page.py::test_nothing_is_fetched_or_run_and_names_stay_text[two]",
    "page/test_page.py::test_nothing_is_fetched_or_run_and_names_stay_text[counts]",
    "posterior/test_certificate.py::test_divergence_against_quadrature_on_a_grid[Poisson-2]",
    "posterior/test_certificate.py::test_gaussian_bound_against_dense_linear_algebra[process-0.3]",
    "posterior/test_functions.py::test_joint_law_of_the_draws[GP 8-D]",
    "posterior/test_functions.py::test_variance_of_the_draws_where_little_is_left_open[three columns]",
    "likelihoods/test_likelihoods.py::test_draws_have_the_stated_mean_and_variance[NegativeBinomial]",
    "likelihoods/test_likelihoods.py::test_draws_have_the_stated_mean_and_variance[Exponential]",
    "likelihoods/test_likelihoods.py::test_draws_have_the_stated_mean_and_variance[Gamma]",
    "calibration/test_calibration.py::test_crps_against_simulation[StudentT]",
    "priors/test_prior_draws.py::test_random_features_have_the_joint_law_of_the_kernel[Matern52]",
    "basis/test_bases.py::test_residual_covariance_is_positive_semi_definite[0-first rows-34]",
    "test_project.py::test_examples_run[posterior_particles.py]",
    "learning/test_heavy_tails.py::test_inducing_points_that_leave_much_open_do_not_make_the_noise_wide",
    "learning/test_heavy_tails.py::test_the_evidence_is_of_the_rows_that_the_kernel_was_learned_from",
    "learning/test_twin.py::test_the_start_is_what_gaussian_noise_finds[t]",
    "learning/test_evidence.py::test_gradient_against_finite_differences[StudentT-process]",
    "learning/test_weights.py::test_weights_stand_for_repetitions[Bernoulli]",
    "page/test_page.py::test_modes_are_shown_with_their_shares",
    "page/test_page.py::test_nothing_is_fetched_or_run_and_names_stay_text[surface]",
    "plots/test_regions.py::test_picture_has_a_line_for_each_mode",
    "plots/test_effects.py::test_several_classes_have_a_line_each",
    "reproduce/test_epochs.py::test_a_kernel_from_a_subset_of_rows_is_judged",
    "basis/test_bases.py::test_residual_covariance_is_positive_semi_definite[0-first rows-8]",
    "basis/test_bases.py::test_residual_covariance_is_positive_semi_definite[1-greedy-34]",
    "basis/test_bases.py::test_residual_covariance_is_positive_semi_definite[0-greedy-1]",
    "basis/test_bases.py::test_residual_covariance_is_positive_semi_definite[0-first rows-1]",
    "posterior/test_functions.py::test_variance_of_the_draws_where_little_is_left_open[product]",
    "posterior/test_functions.py::test_draws_are_differentiable_and_traceable[three]",
    "posterior/test_prediction.py::test_densities_against_adaptive_quadrature[Custom]",
    "samplers/test_run.py::test_other_starts_reach_the_same_law[prior]",
    "calibration/test_calibration.py::test_sets_that_hold_all_labels_are_no_surprise",
)


# First, because `-m` is applied by the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        is_ritz = "test_optimal_is_the_expectation" in item.nodeid and item.nodeid.endswith("-Ritz]")
        if is_ritz or item.nodeid.removeprefix("tests/").startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def room_for_the_compiler():
    """Every compiled program holds memory maps, of which a process may have only so many."""
    yield
    maps = Path("/proc/self/maps")
    if maps.is_file() and len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def users_messages(request):
    """Tests of bad input see what users see: the run-time type checks of the test suite are off in them."""
    if not request.node.name.startswith("test_bad_input"):
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(params=[False, True], ids=["x64_off", "x64_on"])
def x64(request):
    """Run a test with JAX's global switch off and on."""
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture
def curve_inputs():
    """300 inputs on [-3, 3], as in the paper's one-dimensional examples."""
    return np.random.default_rng(1).uniform(-3.0, 3.0, (300, 1))


@pytest.fixture
def curve_prior(curve_inputs):
    kernel = ko.kernels.SquaredExponential(lengthscale=0.6, variance=1.5)
    return ko.GaussianRandomElement(kernel, ko.measures.empirical(curve_inputs))
