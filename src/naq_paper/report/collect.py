"""From a folder of results to the page of its report: what was asked, what was found, what is missing."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

import naq
from naq_paper.cells.cell import titles
from naq_paper.cells.machine import device_words
from naq_paper.cells.records import Record
from naq_paper.experiments.experiment import Study, expand
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import TableView, TextView
from naq_paper.report.answers import RULE, advice, headline
from naq_paper.report.commands import command, section_name, special
from naq_paper.report.format import counted, duration
from naq_paper.report.page import Answer, DataFacts, Made, Page, Section, Summary
from naq_paper.report.profiles import profile_sections
from naq_paper.report.results import Results, is_older, version_label


def page_of(folder: str | Path, *, title: str = "", out: str = "", any_version: bool = False) -> Page:
    """The report of a folder; its commands call it ``out``, "" is where ``naq reproduce`` writes anyway.

    With ``any_version`` results of other code stand in for those that the present code has not computed, and the page says so; else they are apart.
    """
    results = Results.read(folder)
    look = results.latest if any_version else results.current
    expanded = [(request, expand(request, look(request))) for request in results.requests]
    sections = [section(request, studies, results.paths, out) for request, studies in expanded]
    sections = distinct(sections, results.requests)
    older = []
    for label in [] if any_version else results.other_versions():
        kept = []
        for request, studies in expanded:
            find = results.of_version(request, label)
            if (one := section(request, [replace(study, find=find) for study in studies], older=label)).made:
                kept.append(one)
        if kept:
            older.append((label, kept))
    studies = [study for _, found in expanded for study in found]
    tally = Tally.of(studies)
    return Page(
        title or "NaQ: the paper's tables and analyses",
        ", ".join(dict.fromkeys(study.dataset for study in studies)),
        summary(results, studies, tally, out),
        [*sections, *profile_sections(expanded)],
        older,
        [*_notices(results), *_versions(tally.done.values()), *_thin(results.requests)],
        {
            "naq": naq.__version__,
            "report written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "results computed": _span(tally.done.values()),
        },
    )


def section(
    request: Request,
    studies: Sequence[Study],
    paths: Mapping[str, str] | None = None,
    out: str = "",
    *,
    older: str = "",
) -> Section:
    """What a request asked, and what there is of it."""
    experiment = studies[0].experiment
    cells = list(dict.fromkeys(cell for study in studies for cell in study.cells()))
    found = list(zip(titles(cells), (studies[0].find(cell) for cell in cells)))
    views = [view for study in studies for view in study.views()]
    if request.profile != "default":
        views = [TextView([f"Profile {request.profile!r}: {request.settings.summary}."], "caveat"), *views]
    if request.limits.thin:
        views = [TextView([f"Budget {request.budget!r}: {request.cost}"], "caveat"), *views]
    return Section(
        name=section_name(request, older),
        title=experiment.title,
        question=experiment.question,
        where_in_paper=experiment.origin,
        views=views,
        made=[made(record) for _, record in found if record is not None and record.done],
        missing=[] if older else [name for name, record in found if record is None],
        failed=[] if older else [f"{name}: {r.error}" for name, r in found if r is not None and not r.done],
        command=command([request], paths, out),
    )


def distinct(sections: Sequence[Section], requests: Sequence[Request]) -> list[Section]:
    """Sections of one title also say on what data and how; so do the names of their tables, for they name files.

    Every section, table and plot says its profile where the page has several, or where it is not our own.
    """
    repeated = {title for title, times in Counter(s.title for s in sections).items() if times > 1}
    profiles = len({request.profile for request in requests}) > 1
    taken: set[str] = set()
    found = []
    for one, request in zip(sections, requests):
        words = special(request)
        told = ", ".join((*request.datasets, *words)) if one.title in repeated else ""
        profile = f"{request.profile} profile" if profiles or request.profile != "default" else ""
        title = "; ".join(filter(None, (told.replace(f"{request.profile}-profile", "").strip(", "), profile)))
        views = list(one.views)
        if profile:
            views = [v if isinstance(v, TextView) else replace(v, title=f"{v.title} ({profile})") for v in views]
        views = [_named(view, words, taken) if isinstance(view, TableView) else view for view in views]
        found.append(replace(one, title=f"{one.title} ({title})" if title else one.title, views=views))
    return found


def _named(view: TableView, words: Sequence[str], taken: set[str]) -> TableView:
    """The table under a name that no other has, and which is ``taken`` from now on; a profile that is not ours is always in it."""
    longer = "-".join((view.name, *words))
    short = () if any(word.endswith("-profile") for word in words) else (view.name,)
    names = chain((*short, longer), (f"{longer}-{number}" for number in count(2)))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return replace(view, name=name)


def made(record: Record) -> Made:
    """The provenance of a record."""
    config, machine = record.cell.config, record.machine
    return Made(
        key=record.key,
        title=record.cell.title,
        config={"measurement": record.cell.measurement, **config},
        seed=config.get("seed"),
        data=record.identity.data,
        code=record.identity.versions or "version 1",
        versions=dict(machine.get("versions", {})),
        machine=machine_words(machine),
        seconds=record.seconds,
        finished=record.finished,
    )


def machine_words(machine: Mapping[str, Any]) -> str:
    """``NVIDIA H200``, or the processor, its cores and the threads that were used."""
    if (device := device_words(machine)) != "cpu":
        return device
    parts = [re.sub(r"\((R|TM)\)", "", str(machine["processor"]))] if machine.get("processor") else []
    parts += [counted(machine[name], name[:-1]) for name in ("cores", "threads") if machine.get(name)]
    return ", ".join(parts)


@dataclass(frozen=True)
class Tally:
    """Every cell that the page is about, once: finished ones by key, the others by their text."""

    done: dict[str, Record] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, studies: Sequence[Study]) -> Tally:
        tally = cls()
        for study in studies:
            for cell in study.cells():
                record = study.find(cell)
                if record is None:
                    tally.missing.add(cell.text)
                elif record.done:
                    tally.done[record.key] = record
                else:
                    tally.failed.add(cell.text)
        return tally


def summary(results: Results, studies: Sequence[Study], tally: Tally, out: str = "") -> Summary:
    """The first screen."""
    best, margin, real, note = headline(studies)
    found = advice(studies, results.paths)
    facts = {name: known for request in results.requests for name, known in request.facts.items()}
    return Summary(
        best,
        margin,
        real,
        _cost(list(tally.done.values())),
        command(results.requests, results.paths, out),
        [_data(name, known) for name, known in facts.items()],
        len(tally.done),
        len(tally.failed),
        len(tally.missing),
        note,
        found,
        RULE if found else "",
    )


def _cost(records: Sequence[Record]) -> Answer:
    """Time by kind of machine: the same processor with other numbers of threads is one."""
    if not records:
        return Answer("nothing yet")
    by_machine: dict[str, float] = defaultdict(float)
    for record in records:
        words = machine_words({**record.machine, "cores": 0, "threads": 0})
        by_machine[words or "an unknown machine"] += record.seconds
    shares = sorted(by_machine.items(), key=lambda item: -item[1])
    where = "; ".join(f"{duration(seconds)} on {name}" for name, seconds in shares) if len(shares) > 1 else ""
    on = where or f"all on {shares[0][0]}"
    text = f"For {counted(len(records), 'cell')}: {on}. Times of processes that ran side by side are added up."
    return Answer(duration(sum(by_machine.values())), text)


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
    if results.damaged:
        one = len(results.damaged) == 1
        files = ", ".join(f"{key}.json" for key in results.damaged[:6]) + " and others" * (len(results.damaged) > 6)
        count, (are, them) = (
            len(results.damaged),
            ("is damaged and counts", "it") if one else ("are damaged and count", "them"),
        )
        notices.append(
            f"{counted(count, 'result file')} {are} as not run: {files}. The command below computes {them} anew."
        )
    if results.unknown:
        notices.append(f"This version of naq does not know {', '.join(results.unknown)}: left out.")
    return notices


def _versions(records: Iterable[Record]) -> list[str]:
    """One sentence on results of other code than the present one; none where there are none."""
    older = Counter(version_label(record) for record in records if is_older(record))
    if not older:
        return []
    which = ", ".join(f"{counted(number, 'result')} of {label}" for label, number in older.most_common())
    return [
        f"Results of other versions of the code are among those shown: {which}. The details of each say which code gave it."
    ]


def _thin(requests: Sequence[Request]) -> list[str]:
    """One sentence on requests whose numbers are no answer to anything; none where there are none."""
    names = dict.fromkeys(request.experiment for request in requests if request.limits.thin)
    if not names:
        return []
    return [
        f"Budget 'quick' ({', '.join(names)}): trainings of a few steps show that everything runs. "
        "What this page says of these methods, best or not, is no finding."
    ]


def _span(records: Iterable[Record]) -> str:
    times = sorted(record.finished for record in records)
    return f"{times[0]} to {times[-1]}" if times else "none"


def tables_of(page: Page) -> list[TableView]:
    """Every table of the page that is of the present code."""
    return [view for s in page.sections for view in s.views if isinstance(view, TableView)]
