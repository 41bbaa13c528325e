"""What is tested: class splits and fixed sets of few-shot tasks."""

from naq.tasks.tasks import (
    ClassSplit,
    Tasks,
    dirichlet_queries,
    sample_tasks,
    save_task_file,
    split_classes,
    split_of_file,
)

__all__ = [
    "ClassSplit", "Tasks", "dirichlet_queries", "sample_tasks", "save_task_file", "split_classes", "split_of_file",
]  # fmt: skip
