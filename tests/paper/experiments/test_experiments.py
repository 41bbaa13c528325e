"""Every table and analysis by one check, the wrong data files, and an experiment that is added as one file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checked_experiments import check_experiment
from naq.errors import DataError, OptionError
from naq_paper.experiments.definition import fill_in
from naq_paper.experiments.experiment import EXPERIMENTS, Experiments

FOLDER = Path(EXPERIMENTS.folders[0])
NAMES = list(EXPERIMENTS)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment(name):
    check_experiment(name)


def test_tables_come_first_and_every_experiment_introduces_itself():
    kinds = [EXPERIMENTS[name].kind for name in NAMES]
    assert kinds == sorted(kinds, key="table analysis".index) and set(kinds) == {"table", "analysis"}
    assert len({EXPERIMENTS[name].title for name in NAMES}) == len(NAMES) == len(list(FOLDER.glob("*.toml")))
    for name, one in EXPERIMENTS.items():
        assert one.name == name and one.question.endswith("?") and one.datasets
        assert re.match(r"(Figures?|Tables?) \d|not in the paper$", one.origin)
        assert set(one.needs) <= {"labels", "features"}
    with pytest.raises(OptionError, match="label-noise"):
        EXPERIMENTS.find("label-nose")


SWEEP = (FOLDER / "training-way.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("title =", "titel =", "titel is not a key; did you mean title"),
        ("question =", "# question =", "question is missing"),
        ('x_label = "classes', "x_label = 3 #", "x_label is 3; expected a text"),
        ("levels = [5, 10, 20]", "levels = 5", "levels is 5; expected a list"),
        ("levels = [5, 10, 20]", "levels = [5, { level = true }]", r"levels\[1\].level is True"),
        ("levels = [5, 10, 20]", "levels = [{ value = 3 }]", r"levels\[0\].level is missing"),
        (
            '{ method = "naq-diff/*" }',
            '{ methods = "naq-diff/*" }',
            r"rows\[1\].methods is not a key; did you mean method",
        ),
        ("settings.episode.way =", "settings =", "settings is '.value'; expected a table"),
        ('"sweep:Sweep"', '"sweep:Swep"', "analysis is 'sweep:Swep'"),
        ("analysis =", "# analysis =", "analysis is None"),
        ("levels = [", "levels = [[", "not a readable TOML file"),
    ],
)
def test_a_wrong_file_names_file_and_key(tmp_path, old, new, key):
    assert old in SWEEP
    (tmp_path / "mine.toml").write_text(SWEEP.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=rf"mine\.toml.*{key}"):
        Experiments(tmp_path)["mine"]


def test_a_setting_that_nothing_fills_is_named():
    assert fill_in({"a": {"b": "$x"}, "c": "d"}, {"x": 1}, "f") == {"a": {"b": 1}, "c": "d"}
    with pytest.raises(DataError, match=r"f\.a\.b is '\$y'; did you mean \$x|f\.a\.b is '\$y'; expected one of \$x"):
        fill_in({"a": {"b": "$y"}}, {"x": 1}, "f")
