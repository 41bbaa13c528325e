"""From a folder of results to the page of its report: what was asked, what was found, what is missing."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import naq
from naq.errors import DataError
from naq.experiments.asking import Ask
from naq.experiments.cells import Cell, Identity, canonical, digest
from naq.experiments.code import code_of
from naq.experiments.experiment import all_experiments, get_experiment
from naq.experiments.records import Find, Record
from naq.experiments.reproduction import Plan
from naq.experiments.store import Store
from naq.experiments.sweep import dataset_slug
from naq.experiments.views import TableView, TextView
from naq.report.page import Answer, DataFacts, Made, Page, Section, Summary
from naq.report.standing import answers


@dataclass(frozen=True, eq=False)
class Results:
    """The records of a folder by what they are of.

    Attributes:
        by_cell: (cell, data) to the records of every code version.
    """

    plan: Plan
    by_cell: Mapping[tuple[str, str], Sequence[Record]]
    set_aside: Sequence[str]

    @classmethod
    def read(cls, folder: str | Path) -> Results:
        """What lies in a folder of ``naq reproduce``."""
        plan = Plan.load(folder)
        if not plan.asks:
            raise DataError(
                f"{folder} holds no results of naq reproduce (no plan.json); give the folder that it wrote."
            )
        store = Store(folder)
        found: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in (*store.records(), *store.failures()):
            found[record.cell.text, record.identity.data].append(record)
        aside = [path.name for path in sorted((Path(folder) / "damaged").glob("*.json"))]
        return cls(plan, found, aside)

    def current(self, ask: Ask) -> Find:
        """Looks for results of the code as it is now."""

        def find(cell: Cell) -> Record | None:
            data = data_of(ask, cell)
            key = Identity(data, *code_of(cell)).key(cell)
            return next((r for r in self.by_cell.get((cell.text, data), ()) if r.key == key), None)

        return find

    def of_version(self, ask: Ask, label: str) -> Find:
        """Looks for results of one other code version."""

        def find(cell: Cell) -> Record | None:
            found = self.by_cell.get((cell.text, data_of(ask, cell)), ())
            return next((r for r in found if r.done and version_label(r) == label), None)

        return find

    def other_versions(self) -> list[str]:
        """Code versions that are not the present one, latest result first."""
        latest: dict[str, str] = {}
        for record in (r for records in self.by_cell.values() for r in records):
            if record.done and (record.identity.version, record.identity.core, record.identity.own) != code_of(
                record.cell
            ):
                label = version_label(record)
                latest[label] = max(latest.get(label, ""), record.finished)
        return sorted(latest, key=lambda label: latest[label], reverse=True)


def version_label(record: Record) -> str:
    """What a code version is called: the package's version and the hash of its core."""
    return f"{record.identity.version}+{record.identity.core[:8]}"


def data_of(ask: Ask, cell: Cell) -> str:
    """The hash that the request's dataset had."""
    dataset = cell.config.get("dataset")
    return "" if dataset is None else str(ask.facts.get(str(dataset), {}).get("hash", ""))


def page_of(folder: str | Path, *, title: str = "") -> Page:
    """The report of a folder."""
    results = Results.read(folder)
    order = list(all_experiments())
    results.plan.asks.sort(key=lambda ask: order.index(ask.experiment) if ask.experiment in order else len(order))
    sections = [section(ask, results.current(ask)) for ask in results.plan.asks]
    older = []
    for label in results.other_versions():
        found = [section(ask, results.of_version(ask, label), older=label) for ask in results.plan.asks]
        kept = [s for s in found if s.made]
        if kept:
            older.append((label, kept))
    records = _records(results)
    return Page(
        title or "NaQ: the paper's tables and analyses",
        ", ".join(dict.fromkeys(dataset for ask in results.plan.asks for dataset in ask.datasets)),
        summary(results, sections, records),
        sections,
        older,
        _notices(results),
        {
            "naq": naq.__version__,
            "report written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "results computed": _span(records),
        },
    )


def section_name(ask: Ask, older: str = "") -> str:
    """The anchor of a request's section."""
    return "-".join((ask.experiment, *_slugs(ask), *([older] if older else [])))


def section(ask: Ask, find: Find, *, older: str = "") -> Section:
    """What a request asked, and what there is of it."""
    experiment = get_experiment(ask.experiment)
    cells = list(dict.fromkeys(experiment.cells(ask, find)))
    found = [(cell, find(cell)) for cell in cells]
    views = experiment.views(ask, find)
    if ask.plan.thin:
        views = [TextView([f"Budget {ask.budget!r}: {ask.plan.summary}."], "caveat"), *views]
    return Section(
        name=section_name(ask, older),
        title=experiment.title,
        question=experiment.question,
        where_in_paper=experiment.origin,
        views=views,
        made=[made(record) for _, record in found if record is not None and record.done],
        missing=[] if older else [cell.title for cell, record in found if record is None],
        failed=[] if older else [f"{cell.title}: {r.error}" for cell, r in found if r is not None and not r.done],
        command=command([ask]),
    )


def made(record: Record) -> Made:
    """The provenance of a record."""
    config, machine = record.cell.config, record.machine
    return Made(
        key=record.key,
        title=record.cell.title,
        config={"work": record.cell.work, **config},
        seed=config.get("seed"),
        data=record.identity.data,
        code=record.identity.code,
        versions=dict(machine.get("versions", {})),
        machine=machine_words(machine),
        seconds=record.seconds,
        finished=record.finished,
    )


def machine_words(machine: Mapping[str, Any]) -> str:
    """``NVIDIA H200``, or the processor, its cores and the threads that were used."""
    device = str(machine.get("device", "cpu"))
    if device != "cpu":
        return device.partition("(")[2].rstrip(")") or device
    parts = [str(machine["processor"])] if machine.get("processor") else []
    for name in ("cores", "threads"):
        if machine.get(name):
            parts.append(f"{machine[name]} {name if machine[name] != 1 else name[:-1]}")
    return ", ".join(parts)


def summary(results: Results, sections: Sequence[Section], records: Sequence[Record]) -> Summary:
    """The first screen."""
    best, margin, real, note = answers(results.plan.asks, results.current)
    facts = {name: known for ask in results.plan.asks for name, known in ask.facts.items()}
    return Summary(
        best,
        margin,
        real,
        _cost(records),
        command(results.plan.asks),
        [_data(name, known) for name, known in facts.items()],
        len(records),
        sum(len(s.failed) for s in sections),
        len({line for s in sections for line in s.missing}),
        note,
    )


def _records(results: Results) -> list[Record]:
    """Every result that the page shows, once."""
    found: dict[str, Record] = {}
    for ask in results.plan.asks:
        find = results.current(ask)
        for cell in get_experiment(ask.experiment).cells(ask, find):
            if (record := find(cell)) is not None and record.done:
                found[record.key] = record
    return list(found.values())


def _cost(records: Sequence[Record]) -> Answer:
    by_machine: dict[str, float] = defaultdict(float)
    for record in records:
        by_machine[machine_words(record.machine)] += record.seconds
    total = sum(by_machine.values())
    parts = [
        f"{_duration(seconds)} on {name or 'an unknown machine'}"
        for name, seconds in sorted(by_machine.items(), key=lambda x: -x[1])
    ]
    text = (
        f"{len(records):,} cells, summed over processes that may run side by side: {'; '.join(parts)}." if parts else ""
    )
    return Answer(_duration(total) if records else "nothing yet", text)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _data(name: str, facts: Mapping[str, Any]) -> DataFacts:
    split = "/".join(str(facts[part]) for part in ("base", "valid", "test")) if "base" in facts else "–"
    return DataFacts(
        name,
        int(facts["nodes"]),
        int(facts["edges"]),
        int(facts["features"]),
        int(facts["classes"]),
        f"{split} classes (base / validation / test)" if split != "–" else split,
        str(facts["hash"]),
        f"homophily {facts['homophily']:.2f}" if facts.get("homophily") is not None else "",
    )


def _notices(results: Results) -> list[str]:
    notices = []
    if results.set_aside:
        notices.append(
            f"{len(results.set_aside)} damaged result files were set aside in the folder 'damaged' and count as not run; "
            "run the command again to compute them anew."
        )
    return notices


def _span(records: Iterable[Record]) -> str:
    times = sorted(record.finished for record in records)
    return f"{times[0]} to {times[-1]}" if times else "none"


def _slugs(ask: Ask) -> list[str]:
    parts = [ask.budget] if ask.budget != "standard" else []
    parts += [ask.learner] if ask.learner != "protonet" else []
    parts += ["tuned"] if ask.tune else []
    rest = replace(ask, facts={}, budget="standard", learner="protonet", tune=False, experiment="")
    plain = Ask("", rest.datasets)
    return [
        *(dataset_slug(name) for name in ask.datasets),
        *parts,
        *([digest(canonical(rest.to_json()), 3)] if rest != plain else []),
    ]


def command(asks: Sequence[Ask]) -> str:
    """What computes the requests again; several lines where they differ in more than their name."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for ask in asks:
        lines.setdefault(tuple(_flags(ask)), []).append(ask.experiment)
    return "\n".join(shlex.join(["naq", "reproduce", *names, *flags]) for flags, names in lines.items())


def _flags(ask: Ask) -> list[str]:
    flags = [part for dataset in ask.datasets for part in ("--dataset", dataset)]
    if ask.budget != "standard":
        flags += ["--budget", ask.budget]
    for flag, value, default in (
        ("--seeds", ask.seeds, 0),
        ("--episodes", ask.episodes, 0),
        ("--learner", ask.learner, "protonet"),
        ("--head", ask.head, "logistic"),
        ("--features", ask.features, ""),
        ("--select", ask.select, "valid"),
        ("--device", ask.device, "cpu"),
    ):
        flags += [flag, str(value)] if value != default else []
    for flag, values in (("--way", ask.ways), ("--shot", ask.shots), ("--method", ask.methods)):
        flags += [part for value in values for part in (flag, str(value))]
    for name, options in ask.options.items():
        flags += [part for option, value in options.items() for part in ("--set", f"{name}.{option}={value}")]
    return flags + (["--tune"] if ask.tune else [])


def tables_of(page: Page) -> list[TableView]:
    """Every table of the page that is of the present code."""
    return [view for s in page.sections for view in s.views if isinstance(view, TableView)]
