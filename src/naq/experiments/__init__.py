"""What is asked of a grid: the paper's tables and analyses, each an expansion into cells and what their results say."""
