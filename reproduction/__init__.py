"""The experiments of the paper, run again with kosambi beside its rivals: `python -m reproduction`.

An experiment is a list of cells, a table and figures (`experiment`); each cell is computed once and kept (`run`,
`store`); all experiments make one page (`page`); `command` is the command line. The folder is part of the repository
and not of the installed package; README.md beside this file says how to run it.
"""
