"""What a number is worth: intervals over tasks, differences of methods, and the one rule behind every mark.

Accuracies are fractions, 0..1. y[s, t] is the accuracy of seed s on task t, S seeds, T tasks, p[t] the mean over seeds.

**A score** has the mean of all y, ``ci95`` = 1.96 sqrt(var0(p) / T) with ddof 0 (the paper's interval; it speaks of the
tasks drawn and not of the training), and ``spread`` s, the standard deviation (ddof 1) of the seeds' means over tasks.

**A difference** takes tasks and seeds as crossed random factors::

    y[s, t] = mean + task[t] + seed[s] + rest[s, t]         variances  tau^2 (tasks), sigma^2 (seeds), rho^2 (rest)

Two methods a and b answer the same tasks (only D[t] = p_a[t] - p_b[t] matters, with variance tau_D^2) and their seeds
are independent::

    Var(mean of D) = sigma_a^2 / S_a + sigma_b^2 / S_b          seeds
                   + tau_D^2 / T                                tasks
                   + rho_a^2 / (S_a T) + rho_b^2 / (S_b T)      rest

The mean squares of each method's two-way table have expectations E[MS_seed] = T sigma^2 + rho^2 (S - 1 degrees of
freedom; MS_seed = T s^2) and E[MS_rest] = rho^2 ((S - 1)(T - 1)), and E[var(D)] = tau_D^2 + rho_a^2 / S_a + rho_b^2 /
S_b (T - 1). The rest is in both of the other sources, so it is subtracted once::

    variance = MS_seed_a / (S_a T) + MS_seed_b / (S_b T)  +  var(D) / T  -  MS_rest_a / (S_a T) - MS_rest_b / (S_b T)

which is unbiased. The true variance is at least what seeds or tasks alone explain; an estimate below the larger of the
two is replaced by it. On other tasks (unpaired) var(D) / T becomes var(p_a) / T_a + var(p_b) / T_b. A method whose
result no seed enters (``trained=False``) has no seed term, and no rest to subtract. Degrees of freedom are
Satterthwaite's: variance^2 / sum of (term^2 / degrees of the term). ``ci95`` and ``p`` of a difference are Student's
with these: they are about this one difference.

**A family** of comparisons is judged by Holm's rule at 5 %. It multiplies p by hundreds, so p must hold far out in the
tail, where Satterthwaite's does not: with two or three seeds a small variance over seeds is often luck
(docs/reproduction.md has the error of both). ``tail_p`` is Banerjee's: the p that solves ::

    mean^2 = sum over sources i of  V_i t_i(p)^2         t_i(p): two-sided quantile of Student's t, degrees as V_i

An interval made like this covers at least what it promises for any variances (Banerjee 1961). With V_i of two methods
alone three seeds (2 degrees) could never show anything in a family of hundreds. So the variance over seeds of a method
is combined with the typical one of the column, s~^2 = (w s0^2 + (S - 1) s^2) / (w + S - 1) with w + S - 1 degrees: the
moderated variance of Smyth (2004). w = 2 is what the stored results support: seed variances of different methods differ
by factors of ten and more. With few methods the typical variance is hardly known, and w is at most a quarter of the
degrees of freedom of the others. A difference that is significant in its family is also significant alone: a corrected
p is never below ``p``.

With one seed there is no estimate of the variance over seeds: ``seeds_known`` is False, the interval is over tasks, and
nothing is marked.
"""

from naq.run.seeds import LEVEL
from naq_paper.statistics.differences import (
    Difference,
    Score,
    SeedPrior,
    average_ranks,
    difference,
    score,
    seed_prior,
)
from naq_paper.statistics.families import Comparison, Standing, compare, detectable, family

__all__ = [
    "LEVEL", "Comparison", "Difference", "Score", "SeedPrior", "Standing", "average_ranks", "compare", "detectable",
    "difference", "family", "score", "seed_prior",
]  # fmt: skip
