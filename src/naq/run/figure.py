"""The training curve of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from naq.errors import plain

if TYPE_CHECKING:
    from naq.run import Result

BLUE, ORANGE, GREY = "#2563a8", "#d97706", "#6b7280"


def draw_curve(result: Result, path: Path) -> None:
    """Validation accuracy and loss over episodes or epochs, the selected checkpoint, and the test accuracy it gave."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    history = result.history
    assert history is not None
    figure = Figure(figsize=(7.6, 4.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    accuracy = [100 * value for value in history.valid_accuracy]
    axes.plot(history.steps, accuracy, color=BLUE, marker="o", markersize=3.5, linewidth=1.6)
    unit = result.facts["unit"]
    axes.set_xlabel(f"training {unit}")
    free = result.config.select == "clusters"
    axes.set_ylabel("accuracy on label-free tasks, %" if free else "validation accuracy, %", color=BLUE)
    axes.tick_params(axis="y", labelcolor=BLUE)
    best = history.steps.index(result.facts["best_step"])
    axes.plot(
        history.steps[best],
        accuracy[best],
        marker="o",
        markersize=10,
        markerfacecolor="none",
        markeredgecolor=BLUE,
    )
    along = best / max(1, len(accuracy) - 1)
    axes.annotate(
        f"selected: {history.steps[best]:,} {unit}",
        (history.steps[best], accuracy[best]),
        xytext=(0, 12),
        textcoords="offset points",
        ha="left" if along < 0.25 else "right" if along > 0.75 else "center",
        fontsize=9,
        color=BLUE,
    )
    low, high = min(accuracy), max(accuracy)
    axes.set_ylim(low - 0.15 * (high - low) - 1, high + 0.25 * (high - low) + 1)
    losses = axes.twinx()
    losses.plot(history.steps, history.loss, color=ORANGE, linewidth=1.3, linestyle="--")
    losses.set_ylabel("training loss", color=ORANGE)
    losses.tick_params(axis="y", labelcolor=ORANGE)
    losses.set_ylim(bottom=0)
    for side in (axes, losses):
        side.spines["top"].set_visible(False)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    config = result.config
    figure.suptitle(
        f"{config.method} on {plain(config.dataset, 60)}, {config.way}-way {config.shot}-shot: "
        f"{100 * result.accuracy:.2f} ± {100 * result.ci95:.2f} % on test tasks ({config.head})",
        fontsize=10.5,
        color="#111827",
        parse_math=False,  # a name may hold dollars
    )
    figure.savefig(path, format="png")
