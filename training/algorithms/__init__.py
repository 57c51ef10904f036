"""Algorithms, one per file: a frozen dataclass of settings, and the formula as a pure function of tensors.

Every advantage estimator sees a batch the same way. Only generated tokens count, so they are gathered from the padded
`(B, T)` grid into one flat list, row after row, and cut into *runs*: one run per row, or one per turn. Inside a run
there is a single backward recurrence, generalized advantage estimation; the estimators differ only in where runs end,
which reward is placed there, and which value follows the last element. Other cells of the grid (prompts,
observations, padding; even NaN) are never read.

Shape suffixes: `B` rows, `T` tokens, `K` turns (padded), `N` generated tokens of the whole batch,
`M` turns that hold at least one generated token, `R` rows that do, `G` groups. Results are float32 and
carry no gradient.

No estimator whitens; call `masked_whiten` on the result if the recipe requires it.
"""
