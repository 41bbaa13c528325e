"""The paper's own numbers, each with the table it stands in.

The CSV files beside this module are transcripts of the paper's tables; ``origins.csv`` says where each stands. Numbers of tables
are counted in the order of the paper's LaTeX source. Bar heights of figures were read off its poster and are approximate.

>>> found = paper_accuracy("amazon-clothing", "naq-feat/protonet", way=5, shot=1)
>>> found.value, found.ci95, found.origin.place
(83.77, 0.96, 'Table 15')
"""

from naq_paper.experiments.paper.names import PAPER_DATASETS, paper_generator, paper_method, paper_name
from naq_paper.experiments.paper.numbers import (
    Origin,
    PaperNumber,
    paper_accuracy,
    paper_class_similarity,
    paper_figure,
    paper_origin,
    paper_overlap,
    paper_rank,
    paper_rows,
    paper_time,
)

__all__ = [
    "PAPER_DATASETS",
    "Origin",
    "PaperNumber",
    "paper_accuracy",
    "paper_class_similarity",
    "paper_figure",
    "paper_generator",
    "paper_method",
    "paper_name",
    "paper_origin",
    "paper_overlap",
    "paper_rank",
    "paper_rows",
    "paper_time",
]
