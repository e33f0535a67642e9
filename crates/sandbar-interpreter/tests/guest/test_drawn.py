"""Figures, images and data frames of the real packages: run with a Python that has matplotlib, pandas and Pillow."""

import base64
import unittest

from served import Served

PNG = b"\x89PNG\r\n\x1a\n"


class Drawn(Served):
    def chart(self, code):
        run = self.run_code("import matplotlib.pyplot as plt\nimport numpy as np\n%s\nplt.show()" % code)
        self.assertIsNone(run.error, run.lines)
        self.assertEqual((run.stderr, len(run.results)), ("", 1), run.lines)
        result = run.results[0]
        self.assertTrue(base64.b64decode(result["png"]).startswith(PNG))
        self.assertIsNotNone(result.get("chart"), result)
        return result["chart"]

    def test_lines_have_points_and_labels(self):
        chart = self.chart(
            "plt.plot([1, 2, 3], [1, 4, 9], label='squares')\nplt.plot([1, 2, 3], [1, 8, 27])\n"
            "plt.title('Powers')\nplt.xlabel('Time (s)')\nplt.ylabel('Size')\nplt.grid(True)\nplt.legend()"
        )
        self.assertEqual((chart["type"], chart["title"]), ("line", "Powers"))
        self.assertEqual((chart["x_label"], chart["x_unit"], chart["y_label"], chart["y_unit"]), ("Time (s)", "s", "Size", None))
        self.assertEqual((chart["x_scale"], chart["y_scale"]), ("linear", "linear"))
        self.assertEqual(chart["elements"][0], {"label": "squares", "points": [[1.0, 1.0], [2.0, 4.0], [3.0, 9.0]]})
        self.assertEqual([element["label"] for element in chart["elements"]], ["squares", "Line 1"])
        self.assertTrue(all(isinstance(tick, float) for tick in chart["x_ticks"]))

    def test_scattered_points_are_in_groups(self):
        chart = self.chart("plt.scatter([1, 2], [3, 4], label='a')\nplt.scatter([5], [6], c='red', label='b')\nplt.legend()")
        self.assertEqual(chart["type"], "scatter")
        self.assertEqual(
            chart["elements"],
            [{"label": "a", "points": [[1.0, 3.0], [2.0, 4.0]]}, {"label": "b", "points": [[5.0, 6.0]]}],
        )

    def test_bars_have_labels_and_values(self):
        chart = self.chart("plt.bar(['x', 'y', 'z'], [1, 2, 3])\nplt.xlabel('Names')\nplt.ylabel('Sales')")
        self.assertEqual((chart["type"], chart["x_label"], chart["y_label"]), ("bar", "Names", "Sales"))
        self.assertEqual([(bar["label"], bar["value"]) for bar in chart["elements"]], [("x", 1.0), ("y", 2.0), ("z", 3.0)])
        lying = self.chart("plt.barh(['x', 'y'], [1, 2])\nplt.xlabel('Sales')\nplt.ylabel('Names')")
        self.assertEqual((lying["x_label"], [bar["value"] for bar in lying["elements"]]), ("Names", [1.0, 2.0]))

    def test_pies_have_angles(self):
        chart = self.chart("plt.pie([1, 3], labels=['a', 'b'], autopct='%1.1f%%')\nplt.title('Shares')")
        self.assertEqual((chart["type"], chart["title"]), ("pie", "Shares"))
        self.assertEqual([(piece["label"], piece["angle"]) for piece in chart["elements"]], [("a", 90.0), ("b", 270.0)])

    def test_boxes_have_quartiles_and_outliers(self):
        chart = self.chart(
            "fig, ax = plt.subplots()\ndata = [[1, 2, 3, 4, 5, 20], [2, 3, 4, 5, 6]]\n"
            "ax.boxplot(data, patch_artist=True)\nax.set_xticklabels(['a', 'b'])\nax.set_ylabel('Score')"
        )
        self.assertEqual((chart["type"], chart["y_label"]), ("box_and_whisker", "Score"))
        first, second = chart["elements"]
        self.assertEqual((first["label"], first["median"], first["outliers"]), ("a", 3.5, [20.0]))
        self.assertEqual(
            second,
            {"label": "b", "min": 2.0, "first_quartile": 3.0, "median": 4.0, "third_quartile": 5.0, "max": 6.0, "outliers": []},
        )

    def test_several_axes_are_a_superchart_with_a_title(self):
        chart = self.chart(
            "fig, axes = plt.subplots(1, 2)\nfig.suptitle('Both')\naxes[0].plot([1, 2], [3, 5])\naxes[0].set_title('One')\n"
            "axes[1].scatter([1], [2])"
        )
        self.assertEqual((chart["type"], chart["title"]), ("superchart", "Both"))
        self.assertEqual([(part["type"], part["title"]) for part in chart["elements"]], [("line", "One"), ("scatter", None)])
        untitled = self.chart("fig, axes = plt.subplots(1, 2)\naxes[0].plot([1, 2], [3, 5])")
        self.assertIsNone(untitled["title"])

    def test_scales_are_reported(self):
        log = self.chart("plt.plot([1, 10, 100], [1, 2, 3])\nplt.xscale('log')")
        self.assertEqual((log["x_scale"], log["y_scale"]), ("log", "linear"))
        dates = self.chart(
            "import datetime\nplt.plot([datetime.date(2023, 9, 1) + datetime.timedelta(days=n) for n in range(3)], [1, 2, 3])"
        )
        self.assertEqual(dates["x_scale"], "datetime")
        self.assertEqual(dates["elements"][0]["points"][0], ["2023-09-01", 1.0])
        self.assertTrue(dates["x_ticks"][0].startswith("2023-0"), dates)
        stamps = self.chart("import pandas as pd\nplt.plot(pd.date_range('2024-01-01', periods=3), [1, 2, 3])")
        self.assertEqual((stamps["x_scale"], stamps["elements"][0]["points"][0][0]), ("datetime", "2024-01-01T00:00:00"))
        names = self.chart("plt.plot([1, 2, 3], ['a', 'b', 'c'])")
        self.assertEqual((names["x_scale"], names["y_scale"], names["y_tick_labels"]), ("linear", "categorical", ["a", "b", "c"]))

    def test_other_figures_are_unknown_and_drawn(self):
        chart = self.chart("plt.imshow([[0, 1], [1, 0]])\nplt.title('Map')")
        self.assertEqual((chart["type"], chart["title"], chart["elements"]), ("unknown", "Map", []))

    def test_a_figure_that_is_the_last_value_is_one_result(self):
        run = self.run_code("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig")
        self.assertEqual([bool(result.get("png")) for result in run.results], [True] * len(run.results))
        self.assertTrue(run.results[0]["is_main_result"])

    def test_images_are_pictures(self):
        run = self.run_code("from PIL import Image\nimage = Image.new('RGB', (4, 4), 'red')\nimage")
        self.assertTrue(base64.b64decode(run.results[0]["png"]).startswith(PNG))
        for code in ("image.show()", "image.save('/dev/null', 'PNG')"):
            run = self.run_code(code)
            self.assertIsNone(run.error, run.lines)
            self.assertEqual(len(run.results), 1, (code, run.lines))
            self.assertTrue(base64.b64decode(run.results[0]["png"]).startswith(PNG))

    def test_data_frames_are_tables_and_data(self):
        run = self.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': [0.5, float('nan')]})")
        result = run.results[0]
        self.assertIn("<table", result["html"])
        self.assertEqual(result["data"], {"a": [1, 2], "b": ["x", None], "c": [0.5, None]})
        self.assertIn("a", result["text"])
        dated = self.run_code("pd.DataFrame({'when': pd.to_datetime(['2024-05-06'])})")
        self.assertEqual(dated.results[0]["data"], {"when": ["2024-05-06T00:00:00"]})

    def test_errors_of_compiled_packages_are_reported(self):
        cases = {
            "import pandas as pd\npd.DataFrame({'a': [1]})['b']": ("KeyError", "'b'"),
            "import numpy as np\nnp.random.default_rng().integers(5, 1)": ("ValueError", "low >= high"),
            "pd.to_datetime('no date')": ("", ""),
            "np.zeros(3) @ np.zeros(4)": ("ValueError", "mismatch"),
            "import matplotlib\nmatplotlib.use('no such backend')": ("", ""),
        }
        for code, (name, value) in cases.items():
            run = self.run_code(code)
            self.assertIsNotNone(run.error, (code, run.lines))
            self.assertIn(name, run.error["name"])
            self.assertIn(value, run.error["value"])
            self.assertIn("Traceback", run.error["traceback"])


if __name__ == "__main__":
    unittest.main()
