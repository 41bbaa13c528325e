"""``naq list``: what there is."""

from __future__ import annotations

import json
from typing import Annotated, Any

from typer import Argument, Option, echo

from naq.errors import OptionError
from naq.options import did_you_mean, imported

WHAT = ("datasets", "methods", "heads", "experiments")
ONLY_JSON = ("home", "licence", "description")  # left out of the tables, which have little room
BY_HAND = """\
Addresses are those of the publishers; none was tried when this version was made. A download that fails can be put in
place: NAME.npz, and NAME.tasks.npz if there are tasks, into the folder NAQ_DATA, by default ~/.cache/naq/data.
as ours: the graph that the published results were computed on. homophily and split of the first: the paper's Table 7.
"""


def list_command(
    what: Annotated[str, Argument(help="datasets, methods, heads or experiments; all of them if left out.")] = "",
    as_json: Annotated[bool, Option("--json", help="For programs.")] = False,
) -> None:
    """List datasets, methods, heads and experiments."""
    if what and what not in WHAT:
        raise OptionError(f"there is nothing called {what!r} to list; {did_you_mean(what, WHAT)}")
    found = {name: _rows(name) for name in ((what,) if what else WHAT)}
    if as_json:
        echo(json.dumps(found[what] if what else found, indent=2))
        return
    for name, rows in found.items():
        if name == "methods":
            _print_methods()
            continue
        _print(name, [{key: row[key] for key in row if key not in ONLY_JSON} for row in rows])
        if name == "datasets":
            echo("\n".join(f"  {row['name']}: {row['description']}" for row in rows))
            echo(BY_HAND)


def _rows(what: str) -> list[dict[str, Any]]:
    if what == "datasets":
        from naq.io import listing

        return listing(measure=True)
    if what == "methods":
        from naq.methods import methods

        return [
            {
                "name": m.name, "what": m.summary, "labels": "base classes" if m.reads_base_labels else "none",
                "inductive": m.inductive, "head": "own" if m.solves_tasks else "any", "options": m.defaults,
            }
            for m in methods().values()
        ]  # fmt: skip
    if what == "experiments":
        return imported("naq_paper.cli.reproducing:experiment_rows")()
    from naq.heads import HEADS

    return [
        {"name": name, "what": head.summary, "queries_together": head.transductive, "options": dict(head.defaults)}
        for name, head in HEADS.items()
    ]


def _print_methods() -> None:
    """Learners by kinds of episodes, then what needs none; the same names as in the JSON list."""
    from naq.embedders import EMBEDDERS
    from naq.learners import LEARNERS
    from naq.methods import EPISODE_KINDS

    learners = [
        {
            "learner": learner.name, "what": learner.summary,
            **{kind: kind not in learner.unfit for kind in EPISODE_KINDS},
            "head": "its own" if learner.solves_tasks else "any", "options": dict(learner.defaults),
        }
        for learner in LEARNERS.values()
    ]  # fmt: skip
    _print("trained on episodes: run as EPISODES/LEARNER, e.g. naq run --method naq-diff/tent", learners)
    lines = [f"  {kind}: {meaning}" for kind, meaning in EPISODE_KINDS.items()]
    lines += [f"  no {kind}/{x.name}: {why}" for x in LEARNERS.values() for kind, why in x.unfit.items()]
    echo("\n".join(lines) + "\n")
    others = [
        {"method": e.name, "what": e.summary, "inductive": e.inductive, "options": dict(e.defaults)}
        for e in EMBEDDERS.values()
    ]
    _print("without episodes", others)


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    from naq.cli.terminal import print_table

    columns = [name.replace("_", " ") for name in rows[0]]
    numbers = [name for name, value in zip(columns, rows[0].values()) if type(value) is int]
    print_table(
        columns, [[_text(value) for value in row.values()] for row in rows], title=title, numbers=numbers, width=120
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in value.items())
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)
