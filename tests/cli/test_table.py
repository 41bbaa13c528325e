"""The table that ``naq run`` prints."""

from __future__ import annotations

from fake_records import train_result
from naq.cli.table import result_table
from naq.run import Result
from naq_paper.measurements.train import train_cell


def test_a_run_shows_inductive_heads_first_and_dirichlet_queries_in_a_column():
    made = Result.from_json(train_result(train_cell("debian", "naq-feat/teg")))
    table = result_table([made])
    cells = [list(column.cells) for column in table.columns]
    titles = [column.header for column in table.columns]
    assert titles == ["method", "head", "way", "shot", "accuracy %", "Dirichlet(2) %", "seconds"]
    heads = ["logistic (chosen)", "prototype", "transductive *", "em *", "balanced **"]
    shown = cells[1]
    assert [name for name in shown if not name.startswith("own")] == heads
    by_head = dict(zip(shown, cells[5]))
    assert by_head["logistic (chosen)"] == "" and by_head["prototype"] and by_head["balanced **"]
    value = 100 * made.evaluations["em/dirichlet"].accuracy
    assert f"{value:.2f}" in by_head["em *"]
    assert "** and knows that every class has equally many" in table.caption and "Dirichlet(2)" in table.caption


def test_a_run_of_an_earlier_version_has_no_column_for_dirichlet_queries():
    data = train_result(train_cell("debian", "smooth"))
    data["evaluations"] = {head: e for head, e in data["evaluations"].items() if head in ("logistic", "transductive")}
    table = result_table([Result.from_json(data)])
    assert [column.header for column in table.columns] == ["method", "head", "way", "shot", "accuracy %", "seconds"]
    assert "Dirichlet" not in table.caption and "**" not in table.caption
