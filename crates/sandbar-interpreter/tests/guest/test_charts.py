"""Charts: with matplotlib where it is installed, else with things that answer as those of matplotlib do."""

import importlib.util
import os
import sys
import tempfile
import unittest

from served import GUEST, Served

sys.path.insert(0, GUEST)

from sandbar_kernel.charts import chart_of_figure  # noqa: E402

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


class Thing(object):
    """Answers `get_x()` with what it was given as `x`."""

    def __init__(self, **facts):
        self.__dict__.update(facts)

    def __getattr__(self, name):
        if name.startswith("get_") and name[4:] in self.__dict__:
            return lambda: self.__dict__[name[4:]]
        raise AttributeError(name)


class Text(Thing):
    pass


class Line2D(Thing):
    pass


class PathCollection(Thing):
    pass


class Rectangle(Thing):
    pass


class Wedge(Thing):
    pass


class PathPatch(Thing):
    pass


class Container(list):
    def __init__(self, bars, label, orientation=None):
        list.__init__(self, bars)
        self.orientation = orientation
        self.get_label = lambda: label


class Axes(Thing):
    def __init__(self, children, **facts):
        defaults = dict(
            title="",
            xlabel="",
            ylabel="",
            xticks=[0.0, 0.5],
            yticks=[0.0, 0.5],
            xticklabels=["0.0", "0.5"],
            yticklabels=["0.0", "0.5"],
            xscale="linear",
            yscale="linear",
            containers=[],
        )
        defaults.update(facts)
        for name in ("xticklabels", "yticklabels"):
            defaults[name] = [Text(text=label) for label in defaults[name]]
        Thing.__init__(self, **defaults)
        self._children = children
        self.lines = [child for child in children if isinstance(child, Line2D)]
        self.collections = [child for child in children if isinstance(child, PathCollection)]
        self.patches = [child for child in children if isinstance(child, (Rectangle, Wedge, PathPatch))]
        self.xaxis = self.yaxis = Thing(converter=None)


def chart(*axes, **facts):
    return chart_of_figure(Thing(axes=list(axes), **facts))


class Shapes(unittest.TestCase):
    def test_lines_have_points_labels_units_and_scales(self):
        line = Line2D(xdata=[1, 2, 3], ydata=[4, 5, 7], label="_child0")
        other = Line2D(xdata=[1, 2, 3], ydata=[0, 0, 1], label="named")
        grid = Line2D(xdata=[0, 1], ydata=[2, 2], label="_child1")
        found = chart(
            Axes([line, grid, other, Text()], title="T", xlabel="Time (s)", ylabel="Speed [m/s]", yscale="log")
        )
        self.assertEqual(
            found,
            {
                "type": "line",
                "title": "T",
                "x_label": "Time (s)",
                "x_unit": "s",
                "y_label": "Speed [m/s]",
                "y_unit": "m/s",
                "x_ticks": [0.0, 0.5],
                "x_tick_labels": ["0.0", "0.5"],
                "x_scale": "linear",
                "y_ticks": [0.0, 0.5],
                "y_tick_labels": ["0.0", "0.5"],
                "y_scale": "log",
                "elements": [
                    {"label": "Line 0", "points": [[1.0, 4.0], [2.0, 5.0], [3.0, 7.0]]},
                    {"label": "named", "points": [[1.0, 0.0], [2.0, 0.0], [3.0, 1.0]]},
                ],
            },
        )

    def test_categories_are_a_scale(self):
        line = Line2D(xdata=["a", "b", "c"], ydata=[1, 2, 3], label="l")
        found = chart(Axes([line], xticks=[0, 1, 2], xticklabels=["a", "b", "c"]))
        self.assertEqual((found["x_scale"], found["elements"][0]["points"][0]), ("categorical", ["a", 1.0]))

    def test_scattered_points_are_points(self):
        found = chart(Axes([PathCollection(offsets=[(1, 2), (3, 4)], label="some")]))
        self.assertEqual((found["type"], found["elements"]), ("scatter", [{"label": "some", "points": [[1.0, 2.0], [3.0, 4.0]]}]))

    def test_bars_have_labels_groups_and_values(self):
        bars = [Rectangle(height=3, width=0.8), Rectangle(height=5, width=0.8)]
        standing = chart(
            Axes(bars, containers=[Container(bars, "_container0")], xticklabels=["a", "b"], xlabel="X", ylabel="Y")
        )
        self.assertEqual(
            standing["elements"],
            [{"label": "a", "group": "Group 0", "value": 3.0}, {"label": "b", "group": "Group 0", "value": 5.0}],
        )
        self.assertEqual((standing["type"], standing["x_label"]), ("bar", "X"))
        bars = [Rectangle(height=0.8, width=3), Rectangle(height=0.8, width=5)]
        for orientation in (None, "horizontal"):
            lying = chart(
                Axes(bars, containers=[Container(bars, "g", orientation)], yticklabels=["a", "b"], xlabel="X", ylabel="Y")
            )
            self.assertEqual([bar["value"] for bar in lying["elements"]], [3.0, 5.0])
            self.assertEqual((lying["x_label"], lying["elements"][0]["group"]), ("Y", "g"))

    def test_pies_have_angles(self):
        found = chart(Axes([Wedge(label="a", theta1=0, theta2=90.00000001, r=1), Wedge(label="b", theta1=90, theta2=360, r=1)]))
        self.assertEqual(
            found["elements"],
            [{"label": "a", "angle": 90.0, "radius": 1.0}, {"label": "b", "angle": 270.0, "radius": 1.0}],
        )
        self.assertNotIn("x_label", found)

    def test_boxes_have_whiskers_and_outliers(self):
        def box(center, low, high):
            corners = [(center - 0.2, low), (center + 0.2, low), (center + 0.2, high), (center - 0.2, high)]
            return PathPatch(path=Thing(vertices=corners))

        def whiskers(center, minimum, low, median, high, maximum, outliers):
            flat = (center - 0.1, center + 0.1)
            return [
                Line2D(xdata=(center, center), ydata=(low, minimum)),
                Line2D(xdata=(center, center), ydata=(high, maximum)),
                Line2D(xdata=flat, ydata=(minimum, minimum)),
                Line2D(xdata=flat, ydata=(maximum, maximum)),
                Line2D(xdata=(center - 0.2, center + 0.2), ydata=(median, median)),
                Line2D(xdata=[center] * len(outliers), ydata=outliers),
            ]

        # Drawn twice, once without filling: then the box is a line as well.
        outline = Line2D(xdata=(0.8, 1.2, 1.2, 0.8, 0.8), ydata=(2, 2, 4, 4, 2))
        children = [outline, box(1, 2, 4), box(2, 3, 6)]
        children += whiskers(1, 1, 2, 3, 4, 5, [9, 10, 11]) + whiskers(2, 2, 3, 4, 6, 8, [0, 12])
        found = chart(Axes(children, xticklabels=["a", "b"]))
        self.assertEqual(found["type"], "box_and_whisker")
        self.assertEqual(
            found["elements"][0],
            {
                "label": "a",
                "min": 1.0,
                "first_quartile": 2.0,
                "median": 3.0,
                "third_quartile": 4.0,
                "max": 5.0,
                "outliers": [9.0, 10.0, 11.0],
            },
        )
        self.assertEqual((found["elements"][1]["max"], found["elements"][1]["outliers"]), (8.0, [0.0, 12.0]))

    def test_several_axes_are_a_superchart_and_others_are_unknown(self):
        mixed = Axes([Rectangle(), Wedge()], title="odd")
        found = chart(Axes([Line2D(xdata=[1, 2, 3], ydata=[1, 2, 3], label="l")]), mixed, suptitle="both")
        self.assertEqual((found["type"], found["title"]), ("superchart", "both"))
        self.assertEqual([element["type"] for element in found["elements"]], ["line", "unknown"])
        self.assertEqual(found["elements"][1], {"type": "unknown", "title": "odd", "elements": []})
        self.assertIsNone(chart())


STAND_IN = {
    "__init__.py": """
rcParams = {"backend": "agg"}
def use(name):
    rcParams["backend"] = name
""",
    "backends/__init__.py": "",
    "backends/backend_agg.py": "FigureCanvas = FigureManager = object",
    "figure.py": """
class Canvas:
    def print_figure(self, file, **options):
        file.write(b"drawn")
class Figure:
    lines = texts = images = ()
    def __init__(self):
        self.axes, self.canvas = [], Canvas()
    def get_axes(self):
        return self.axes
    def get_facecolor(self):
        return "white"
    def __repr__(self):
        return "<Figure size 640x480 with %d Axes>" % len(self.axes)
""",
    "pyplot.py": """
import importlib
import matplotlib
from matplotlib.figure import Figure
_figures = {}
def get_fignums():
    return sorted(_figures)
def figure(number=None):
    return _figures.setdefault(number or len(_figures) + 1, Figure())
def plot(axes):
    figure(1).axes.append(axes)
def close(which):
    _figures.clear()
def show():
    importlib.import_module(matplotlib.rcParams["backend"].replace("module://", "")).show()
""",
}


class Shown(Served):
    @classmethod
    def setUpClass(cls):
        if not HAS_MATPLOTLIB:
            place = tempfile.TemporaryDirectory()
            cls.addClassCleanup(place.cleanup)
            os.makedirs(os.path.join(place.name, "matplotlib", "backends"))
            for name, source in STAND_IN.items():
                with open(os.path.join(place.name, "matplotlib", name), "w") as file:
                    file.write(source)
            # Cells find it; nothing else imports it.
            before = os.environ.get("PYTHONPATH")
            os.environ["PYTHONPATH"] = place.name
            cls.addClassCleanup(lambda: os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before))
        super(Shown, cls).setUpClass()

    prepare = "import matplotlib.pyplot as plt\n" + (
        "draw = lambda: plt.plot([1, 2, 3], [1, 4, 9])\n"
        if HAS_MATPLOTLIB
        else "import types\n"
        "class Ax:\n"
        "    _children, get_title = [object()], lambda self: 'told'\n"
        "draw = lambda: plt.plot(Ax())\n"
    )

    def test_a_figure_is_shown_as_an_image_with_its_data(self):
        run = self.run_code(self.prepare + "draw()\nplt.show()\nprint('after')")
        self.assertEqual(run.order, ["number_of_executions", "result", "stdout", "end_of_execution"])
        result = run.results[0]
        self.assertTrue(result["png"] and result["text"].startswith("<Figure size"), result)
        self.assertIn("type", result["chart"])
        self.assertFalse(result["is_main_result"])

    def test_a_figure_that_was_not_shown_is_shown_at_the_end_once(self):
        run = self.run_code(self.prepare + "x = draw()")
        self.assertEqual([bool(result.get("png")) for result in run.results], [True])
        self.assertEqual(self.run_code("1").order, ["number_of_executions", "result", "end_of_execution"])

    def test_another_backend_is_left_alone(self):
        run = self.run_code(self.prepare + "import matplotlib\nbefore = matplotlib.rcParams['backend']\nmatplotlib.use('agg')\nx = draw()")
        self.assertEqual(run.results, [])
        self.run_code("plt.close('all')\nmatplotlib.use(before)")


if __name__ == "__main__":
    unittest.main()
