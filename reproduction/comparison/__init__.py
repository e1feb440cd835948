"""The tables of the paper on public data sets: kosambi, the paper's recipe, and rivals in the same splits.

`data` reads and splits; `plan` lists the cells and has the two experiments; `methods` fits and `scores` judges, with
`recipe` (the paper's model), `epochs` (its kernel before it has converged, and from more rows), `published` (the
predictions of the paper's code), `diffusion` (its sampler), `descent` and `variational` (GPyTorch); `tables`,
`sections`, `fidelity`, `verdicts` and `pictures` show what came out, with the numbers of `paper` and the tests of
`statistics`.
"""
