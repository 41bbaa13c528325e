"""File results of naq 0.1.0 under the keys of today: same configuration, same data, all code of version 1.

python tools/rekey.py runs/reproduce                         a folder of naq reproduce
python tools/rekey.py benchmarks/results/reproduction.zip    what naq report --pack wrote

A training that served several shots becomes one record per shot: the accuracies of that shot, and the history up to where
a training for it alone would have stopped. Its seconds stay those of the shared training up to there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from naq.errors import DataError, NaqError
from naq.files import open_zip, parse_json, verify_seal, write_atomically
from naq.training.loop import first_best
from naq_paper.cells.cell import Cell, Identity, canonical, digest
from naq_paper.cells.records import OUTDATED, Record, read_pack, write_records
from naq_paper.cells.store import Store
from naq_paper.experiments.folder import RECORDS, REQUESTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "place", type=Path, help="a folder of results, or a file of packed ones; it is changed in place"
    )
    place = parser.parse_args().place
    try:
        count, now = rekey_folder(place) if place.is_dir() else rekey_pack(place)
    except NaqError as error:
        sys.exit(f"rekey: {error}")
    print(f"{count} outdated records are {now} records now.")


def rekey_folder(folder: Path) -> tuple[int, int]:
    """How many outdated records there were, and how many records they became. A killed run is continued by the next."""
    count = now = 0
    for part in ("cells", "failed"):
        files = {path: parse_json(path.read_bytes()) for path in sorted((folder / part).glob("*.json"))}
        outdated = {path: data for path, data in files.items() if data.get("format") in OUTDATED}
        made = of_old(outdated.values())
        keys = {path.stem for path in files}
        for path in outdated:
            path.rename(path.with_suffix(".old"))
        for record in made:
            if record.key not in keys:
                Store(folder).put(record)
        count, now = count + len(outdated), now + len(made)
    for part in ("cells", "failed"):
        for path in (folder / part).glob("*.old"):
            path.unlink()
    return count, now


def rekey_pack(pack: Path) -> tuple[int, int]:
    """The same of a file of packed results."""
    with open_zip(pack, "file of packed results") as members:
        contents = {name: members[name] for name in (REQUESTS, RECORDS)}
    data = read_pack(contents[RECORDS])
    if data.get("format") not in OUTDATED:
        return 0, 0
    old = verify_seal(data, unsealed=data["format"] == 1)["records"]
    made = of_old(old)
    with tempfile.TemporaryDirectory() as place:
        write_records(Path(place) / RECORDS, made)
        contents[RECORDS] = (Path(place) / RECORDS).read_bytes()

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)

    write_atomically(pack, write)
    return len(old), len(made)


def of_old(rows: Any) -> list[Record]:
    """Today's records of outdated ones, by key; trainings of one shot take precedence over shares of those for several."""
    checked = sorted(map(check, rows), key=lambda row: len(row["config"].get("also_shots") or ()))
    found: dict[str, Record] = {}
    for row in checked:
        for record in records_of(row):
            kept = found.setdefault(record.key, record)
            if not row["config"].get("also_shots") and record.finished > kept.finished:
                found[record.key] = record  # the same cell computed again by later code
    return [found[key] for key in sorted(found)]


def check(row: dict[str, Any]) -> dict[str, Any]:
    """The content of an outdated record whose checksum and key fit it."""
    data = verify_seal(row, unsealed=row["format"] == 1)
    identity = data["identity"]
    text = canonical({"measurement": data["measurement"], "config": data["config"]})
    parts = (text, *(identity[name] for name in ("data", "version", "core", "own")))
    if digest("|".join(parts)) != data["key"]:
        raise DataError(f"the record {data['key']} does not fit its key; delete its file, its cell is computed again.")
    return data


def records_of(row: dict[str, Any]) -> Iterator[Record]:
    """One record per shot."""
    config = {name: value for name, value in row["config"].items() if name != "also_shots"}
    for shot in (config.get("shot"), *(row["config"].get("also_shots") or ())):
        own = config if shot is None else {**config, "shot": shot}
        result = row["result"]
        if result is not None and row["measurement"] == "train":
            result = of_shot(result, shot, row["key"])
        yield Record(
            Cell(row["measurement"], own),
            Identity(row["identity"]["data"]),
            result,
            row["error"],
            seconds_of(row, result),
            row["machine"],
            row["finished"],
        )


def of_shot(result: dict[str, Any], shot: int, key: str) -> dict[str, Any]:
    """What a training for this shot alone would have returned."""
    config, main = result["config"], shot == result["config"]["shot"]
    also, history = str(shot), result["history"]
    made = {name: value for name, value in result.items() if name not in ("also", "also_baseline")}
    made["config"] = {name: value for name, value in config.items() if name != "also_shots"} | {"shot": shot}
    made["data"] = {name: value for name, value in result["data"].items() if name != "also"}
    made["facts"] = {name: value for name, value in result["facts"].items() if name != "also_selected"}
    if not main:
        made["evaluations"] = result["also"][also]
        made["baseline"] = result.get("also_baseline", {}).get(also, {})
        made["data"]["tasks"] = result["data"]["also"][also]
    if history is None:
        return made
    accuracies = history["valid_accuracy"] if main else history.get("also", {}).get(also)
    if accuracies is None:
        raise DataError(
            f"the record {key} does not say how {shot}-shot tasks were validated: a record of one shot cannot be made of it; "
            "delete its file, its cells are computed again."
        )
    best, stopped = first_best(accuracies, config["patience"] or None)
    end = best + config["patience"] if stopped else len(accuracies) - 1
    made["history"] = {name: history[name][: end + 1] for name in ("steps", "loss", "seconds")}
    made["history"]["valid_accuracy"] = accuracies[: end + 1]
    if config.get("also_shots"):
        step, valid = history["steps"][best], accuracies[best]
        told = result["facts"] if main else result["facts"]["also_selected"][also]
        if (told["best_step"], told["valid_accuracy"]) != (step, valid):
            raise DataError(f"the history of the record {key} does not fit what it selected; delete its file.")
        shared = {"steps_trained": history["steps"][end], "stopped_early": stopped, "trained_with_shots": [config["shot"], *config["also_shots"]]}  # fmt: skip
        made["facts"] |= {"best_step": step, "valid_accuracy": valid, **shared}
    return made


def seconds_of(row: dict[str, Any], result: dict[str, Any] | None) -> float:
    """Those of the record, without the part of the training that this shot did not need."""
    if result is None or not result.get("history"):
        return float(row["seconds"])
    whole, own = (one["history"]["seconds"][-1] for one in (row["result"], result))
    return float(row["seconds"]) - (whole - own)


if __name__ == "__main__":
    main()
