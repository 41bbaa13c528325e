"""The paper's tables and analyses, one module each, named in :data:`naq_paper.experiments.experiment.EXPERIMENTS`."""
