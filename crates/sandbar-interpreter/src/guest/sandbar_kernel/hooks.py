"""What is done to packages once a cell imports them: figures and images are shown, `display` goes to us.

Nothing is imported for it: a sandbox without these packages pays nothing.
"""

import importlib.abc
import importlib.util
import sys

from sandbar_kernel.display import CLASSES, Handle, Shown

BACKEND = "sandbar_figures"


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module when it has been imported."""

    def __init__(self, hooks):
        self._hooks = hooks
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        hook = self._hooks.get(name)
        if hook is None or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        finally:
            self._busy.discard(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            try:
                hook(module)
            except Exception as error:
                print("%s could not be prepared: %s" % (name, error), file=sys.stderr)

        spec.loader.exec_module = exec_module
        return spec


def install(displayer, shell):
    def ipython_display(module):
        module.display = displayer.display

    def ipython_get(module):
        module.get_ipython = lambda: shell

    sys.meta_path.insert(
        0,
        AfterImport(
            {
                "matplotlib": lambda module: module.use("module://" + BACKEND),
                "PIL.Image": lambda module: _show_saved_images(module, displayer),
                "PIL.ImageShow": lambda module: _show_images(module, displayer),
                "IPython.core.display_functions": ipython_display,
                "IPython.core.getipython": ipython_get,
            }
        ),
    )
    sys.meta_path.append(
        OurOwn(
            {
                BACKEND: lambda module: _fill_backend(module, displayer),
                "IPython": lambda module: _fill_ipython(module, shell, displayer),
                "IPython.core": lambda module: None,
                "IPython.core.display": lambda module: _fill_ipython_display(module, displayer),
                "IPython.core.getipython": lambda module: _fill_ipython(module, shell, displayer),
                # matplotlib asks it for the windows of a backend. Ours has none.
                "IPython.core.pylabtools": lambda module: setattr(module, "backend2gui", {}),
                "IPython.display": lambda module: _fill_ipython_display(module, displayer),
            }
        )
    )


def show_open_figures():
    """Figures that a cell made and did not show are shown at its end."""
    # A cell that chose another backend shows its figures itself.
    if "matplotlib.pyplot" in sys.modules and str(sys.modules["matplotlib"].rcParams["backend"]).endswith(BACKEND):
        importlib.import_module(BACKEND).show()


def _fill_backend(module, displayer):
    """A backend of matplotlib that draws as Agg does and shows by sending."""
    from matplotlib.backends import backend_agg

    for name in ("FigureCanvas", "FigureManager", "new_figure_manager", "new_figure_manager_given_figure"):
        if hasattr(backend_agg, name):
            setattr(module, name, getattr(backend_agg, name))

    def show(*_, **__):
        from matplotlib import pyplot

        try:
            for number in pyplot.get_fignums():
                figure = pyplot.figure(number)
                # Only what has something drawn in it, as notebooks do.
                if figure.axes or figure.lines or figure.texts or figure.images:
                    displayer.show(figure)
        finally:
            pyplot.close("all")

    module.show = show


def _show_images(module, displayer):
    def show(_, image, **__):
        displayer.show(image)
        return True

    module.UnixViewer.show = show


def _show_saved_images(module, displayer):
    save = module.Image.save

    def save_and_show(image, fp, format=None, **options):
        if isinstance(fp, str):
            displayer.show(image)
        return save(image, fp, format, **options)

    module.Image.save = save_and_show


class OurOwn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that are nowhere else, each with what fills it."""

    def __init__(self, modules):
        self._modules = modules

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self, is_package=name in ("IPython", "IPython.core")) if name in self._modules else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self._modules[module.__name__](module)


def _fill_ipython(module, shell, displayer):
    """As much of IPython as cells and packages ask for where it is not installed."""
    module.get_ipython = lambda: shell
    module.display = displayer.display
    module.version_info = (8, 24, 0)
    module.__version__ = "8.24.0"


def _fill_ipython_display(module, displayer):
    module.display = displayer.display
    module.clear_output = lambda wait=False: None
    module.update_display = lambda obj, **_: None
    module.DisplayHandle, module.DisplayObject = Handle, Shown
    module.publish_display_data = lambda data, *_, **__: displayer.display(data, raw=True)
    for name, kind in CLASSES.items():
        setattr(module, name, kind)
    for name, kind in (("html", "HTML"), ("markdown", "Markdown"), ("latex", "Latex"), ("svg", "SVG"), ("json", "JSON")):
        setattr(module, "display_" + name, lambda data, kind=kind: displayer.display(CLASSES[kind](data)))
