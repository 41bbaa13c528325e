"""The paper's tables and analyses: each is expanded into the cells of a grid and shows their results."""
