"""Runs a program whose sources come through a file descriptor, so that no file of the sandbox is touched.

Used as `python3 -c START DESCRIPTOR MODULE`: the descriptor holds a JSON object from path to source text.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys


class Bundle(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the modules of a bundle."""

    def __init__(self, sources):
        self.sources = sources

    def path_of(self, name):
        return name.replace(".", "/") + ".py"

    def is_package(self, name):
        return any(path.startswith(name + "/") for path in self.sources)

    def get_source(self, name):
        return self.sources.get(self.path_of(name), "")

    def find_spec(self, name, path=None, target=None):
        if self.path_of(name) not in self.sources and not self.is_package(name):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=self.is_package(name))


def main():
    descriptor, module = int(sys.argv[1]), sys.argv[2]
    # The numbers of the standard streams must not become free for other files.
    with os.fdopen(descriptor, "rb", closefd=descriptor > 2) as source:
        bundle = Bundle(json.loads(source.read().decode()))
    sys.meta_path.insert(0, bundle)
    importlib.import_module(module).main(bundle.sources)


main()
