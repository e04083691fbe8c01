"""The paper's experiment: four ways to activate the modules of three architectures."""
