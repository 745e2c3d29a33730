"""The parts of the project, each in a module or a folder of its own."""
