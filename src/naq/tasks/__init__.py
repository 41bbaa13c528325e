"""What is tested: class splits and fixed sets of few-shot tasks."""

from naq.tasks.sampling import dirichlet_queries, sample_tasks
from naq.tasks.split import ClassSplit, split_classes, split_of_file
from naq.tasks.tasks import Tasks, save_task_file, settings_of_file

__all__ = [
    "ClassSplit", "Tasks", "dirichlet_queries", "sample_tasks", "save_task_file", "settings_of_file", "split_classes",
    "split_of_file",
]  # fmt: skip
