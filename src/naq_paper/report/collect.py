"""From a folder of results to its report: what was requested, what was found, what is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

import naq
from naq.errors import DataError
from naq_paper.cells.cell import Cell, Identity, titles, versions_of
from naq_paper.cells.records import Find, Record
from naq_paper.cells.store import Store
from naq_paper.experiments.experiment import EXPERIMENTS, Study, expand
from naq_paper.experiments.folder import REQUESTS, Requests, read_pack
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import TableView, TextView
from naq_paper.report.answers import RULE, advice, key_figures
from naq_paper.report.commands import reproduce_command_of, request_parts, section_name
from naq_paper.report.format import count_words, duration, machine_words
from naq_paper.report.page import KeyFigure, Report, Section, Summary


def report_of(folder: str | Path, *, title: str = "", out: str = "", any_version: bool = False) -> Report:
    """The report of a folder or of a pack; its commands call it ``out``, "" is where ``naq reproduce`` writes anyway.

    With ``any_version`` results of other code are shown for those that the present code has not computed, and the page
    says so; otherwise they are apart.
    """
    results = Results.read(folder)
    look = results.latest if any_version else results.current
    expanded = [(request, expand(request, look(request))) for request in results.requests]
    sections = [section(request, studies, results.paths, out) for request, studies in expanded]
    older = []
    for label in [] if any_version else results.other_versions():
        of_version = [
            section(request, [replace(one, find=results.of_version(request, label)) for one in studies], older=label)
            for request, studies in expanded
        ]
        older += [(label, kept)] if (kept := [one for one in of_version if one.made]) else []
    studies = [study for _, found in expanded for study in found]
    done, failed, missing = count_cells(studies)
    best, margin, significance, about = key_figures(studies)
    advised = advice(studies, results.paths)
    times = sorted(record.finished for record in done.values())
    summary = Summary(
        best,
        margin,
        significance,
        _cost(list(done.values())),
        reproduce_command_of(results.requests, results.paths, out),
        {name: known for request in results.requests for name, known in request.facts.items()},
        len(done),
        len(failed),
        len(missing),
        about,
        advised,
        RULE if advised else "",
    )
    return Report(
        title or "NaQ: the paper's tables and analyses",
        ", ".join(dict.fromkeys(study.dataset for study in studies)),
        summary,
        distinguish(sections, results.requests),
        older,
        _notices(results, done.values()),
        {
            "naq": naq.__version__,
            "report written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "results computed": f"{times[0]} to {times[-1]}" if times else "none",
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
    """What was requested, and what there is of it."""
    experiment = studies[0].experiment
    cells = list(dict.fromkeys(cell for study in studies for cell in study.cells()))
    found = list(zip(titles(cells), (studies[0].find(cell) for cell in cells)))
    caveats = [f"Budget {request.budget!r}: {request.cost}"] if request.limits.thin else []
    caveats += [f"Profile {request.profile!r}: {request.settings.summary}."] if request.profile != "default" else []
    return Section(
        name=section_name(request, older),
        title=experiment.title,
        question=experiment.question,
        where_in_paper=experiment.origin,
        views=[
            *(TextView([sentence], "caveat") for sentence in caveats),
            *(view for study in studies for view in study.figures()),
        ],
        made=[record for _, record in found if record is not None and record.done],
        missing=[] if older else [name for name, record in found if record is None],
        failed=[] if older else [f"{name}: {r.error}" for name, r in found if r is not None and not r.done],
        command=reproduce_command_of([request], paths, out),
    )


def distinguish(sections: Sequence[Section], requests: Sequence[Request]) -> list[Section]:
    """Sections of one title also say on what data and how; so do the names of their tables, for they name files.

    Every section, table and plot says its profile if the page has several, or if it is not our own.
    """
    repeated = {title for title, times in Counter(s.title for s in sections).items() if times > 1}
    profiles = len({request.profile for request in requests}) > 1
    taken: set[str] = set()
    found = []
    for one, request in zip(sections, requests):
        parts = request_parts(request)
        own = f"{request.profile}-profile"
        words = [*request.datasets, *(part for part in parts if part != own)] if one.title in repeated else []
        profile = f"{request.profile} profile" if profiles or request.profile != "default" else ""
        title = "; ".join(filter(None, (", ".join(words), profile)))
        views = list(one.views)
        if profile:
            views = [v if isinstance(v, TextView) else replace(v, title=f"{v.title} ({profile})") for v in views]
        views = [_named(view, parts, taken) if isinstance(view, TableView) else view for view in views]
        found.append(replace(one, title=f"{one.title} ({title})" if title else one.title, views=views))
    return found


def _named(view: TableView, parts: Sequence[str], taken: set[str]) -> TableView:
    """The table under a name that is not ``taken`` yet; a profile that is not ours is always in it."""
    longer = "-".join((view.name, *parts))
    short = () if any(part.endswith("-profile") for part in parts) else (view.name,)
    names = chain((*short, longer), (f"{longer}-{number}" for number in count(2)))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return replace(view, name=name)


def count_cells(studies: Sequence[Study]) -> tuple[dict[str, Record], set[str], set[str]]:
    """Every cell of the page once: finished ones by key, the texts of failed and of missing ones."""
    done: dict[str, Record] = {}
    failed, missing = set[str](), set[str]()
    for study in studies:
        for cell in study.cells():
            record = study.find(cell)
            if record is None:
                missing.add(cell.text)
            elif record.done:
                done[record.key] = record
            else:
                failed.add(cell.text)
    return done, failed, missing


def _cost(records: Sequence[Record]) -> KeyFigure:
    """Time by kind of machine: the same processor with other numbers of threads is one."""
    by_machine: dict[str, float] = defaultdict(float)
    for record in records:
        words = machine_words({**record.machine, "cores": 0, "threads": 0})
        by_machine[words or "an unknown machine"] += record.seconds
    if not by_machine:
        return KeyFigure("nothing yet")
    shares = sorted(by_machine.items(), key=lambda item: -item[1])
    on = "; ".join(f"{duration(seconds)} on {name}" for name, seconds in shares)
    text = f"For {count_words(len(records), 'cell')}: {on}. Times of processes that ran side by side are added up."
    return KeyFigure(duration(sum(by_machine.values())), text)


def _notices(results: Results, records: Iterable[Record]) -> list[str]:
    """What to know first: damaged files, unknown experiments, results of other code, budgets that find nothing."""
    notices = []
    if results.damaged:
        files = ", ".join(f"{key}.json" for key in results.damaged[:6]) + " and others" * (len(results.damaged) > 6)
        notices.append(f"Damaged, and so counted as not run: {files}. The command below computes what is missing.")
    if results.unknown:
        notices.append(f"This version of naq does not know {', '.join(results.unknown)}: left out.")
    older = Counter(version_label(record) for record in records if is_older(record))
    if older:
        which = ", ".join(f"{count_words(number, 'result')} of {label}" for label, number in older.most_common())
        notices.append(f"Results of other versions of the code are among those shown: {which}. The details say which.")
    if names := dict.fromkeys(request.experiment for request in results.requests if request.limits.thin):
        notices.append(
            f"Budget 'quick' ({', '.join(names)}): trainings of a few steps show that everything runs. "
            "What this page says of these methods, best or not, is not a finding."
        )
    return notices


def tables_of(report: Report) -> list[TableView]:
    """Every table of the page that is of the present code."""
    return [view for s in report.sections for view in s.views if isinstance(view, TableView)]


@dataclass(frozen=True, eq=False)
class Results:
    """The records of a folder or of a pack."""

    requests: Sequence[Request]  # what the folder was made for, in reading order
    by_cell: Mapping[tuple[str, str], Sequence[Record]]  # (cell, data): records of every code version, latest first
    paths: Mapping[str, str]  # of datasets that have no name
    damaged: Sequence[str]  # keys of files that were no record and that nothing has replaced since
    unknown: Sequence[str]  # experiments that the folder was made for and this version does not have

    @classmethod
    def read(cls, place: str | Path) -> Results:
        """Reads a folder of ``naq reproduce``, or the file that it was packed into."""
        if Path(place).is_file():
            requests, records = read_pack(place)
            return cls.of(requests, records)
        kept, store = Requests.load(place), Store(place)
        if not kept.requests:
            raise DataError(f"{place} holds no results of naq reproduce (no {REQUESTS}); give the folder it wrote.")
        records = [*store.records(), *store.failures()]
        # in a folder for reading only they could not be moved
        damaged = {path.name.partition(".")[0] for path in (store.folder / "damaged").glob("*.json")}
        damaged |= {Path(name).stem for name in store.set_aside}
        return cls.of(kept.requests, records, kept.paths, damaged - {record.key for record in records})

    @classmethod
    def of(
        cls,
        requests: Sequence[Request],
        records: Sequence[Record],
        paths: Mapping[str, str] | None = None,
        damaged: Collection[str] = (),
    ) -> Results:
        found: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in sorted(records, key=lambda record: record.finished, reverse=True):
            found[record.cell.text, record.identity.data].append(record)
        order = list(EXPERIMENTS)
        known = [request for request in requests if request.experiment in order]
        known.sort(key=lambda request: (order.index(request.experiment), request.profile != "default"))
        unknown = dict.fromkeys(request.experiment for request in requests if request.experiment not in order)
        return cls(known, found, paths or {}, sorted(damaged), list(unknown))

    def current(self, request: Request) -> Find:
        """Looks for results of the code as it is now."""

        def find(cell: Cell) -> Record | None:
            data = data_of(request, cell)
            key = Identity(data, versions_of(cell.measurement, cell.config)).key(cell)
            return next((r for r in self.by_cell.get((cell.text, data), ()) if r.key == key), None)

        return find

    def latest(self, request: Request) -> Find:
        """Looks for results of the code as it is now, else for the latest that any other code gave."""
        current = self.current(request)

        def find(cell: Cell) -> Record | None:
            found = self.by_cell.get((cell.text, data_of(request, cell)), ())
            return current(cell) or next((record for record in found if record.done), None)

        return find

    def of_version(self, request: Request, label: str) -> Find:
        """Looks for results of one other code version."""

        def find(cell: Cell) -> Record | None:
            found = self.by_cell.get((cell.text, data_of(request, cell)), ())
            return next((r for r in found if is_older(r) and version_label(r) == label), None)

        return find

    def other_versions(self) -> list[str]:
        """Code versions that are not the present one, latest result first."""
        latest: dict[str, str] = {}
        for record in (r for records in self.by_cell.values() for r in records):
            if is_older(record):
                label = version_label(record)
                latest[label] = max(latest.get(label, ""), record.finished)
        return sorted(latest, key=lambda label: latest[label], reverse=True)


def is_older(record: Record) -> bool:
    """Whether it is a result of other code than the present one."""
    return record.done and record.identity.versions != versions_of(record.cell.measurement, record.cell.config)


def version_label(record: Record) -> str:
    """What an older code version is called: the present versions that it does not have, e.g. ``before protonet 2``."""
    now = versions_of(record.cell.measurement, record.cell.config).split(", ")
    then = record.identity.versions.split(", ")
    newer = ", ".join(one for one in now if one and one not in then)
    return f"before {newer}" if newer else record.identity.versions


def data_of(request: Request, cell: Cell) -> str:
    """The hash that the request's dataset had."""
    dataset = cell.config.get("dataset")
    return "" if dataset is None else str(request.facts.get(str(dataset), {}).get("hash", ""))
