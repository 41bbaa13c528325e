"""The paper's tables and analyses, one module each: a module that is added here is known by the name it registers."""
