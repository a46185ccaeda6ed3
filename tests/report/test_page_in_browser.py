# SPDX-License-Identifier: Apache-2.0
"""The report in a real headless browser, at two widths, light and dark: no error, no request, nothing cut off."""

import pytest
from browser import Browser, find_chromium
from synthetic_run import write_architectures, write_profile, write_run

from seed_hpc.report.report_command import write_report

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine: apt install chromium")


@pytest.fixture(scope="module")
def browser():
    with Browser(find_chromium()) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    runs = [write_run(folder, run_id=f"seed{seed}", seed=seed) for seed in (1, 2)]
    write_profile(runs[0])
    write_report(runs, folder / "report", architectures=write_architectures(folder / "architectures.json"))
    return folder / "report" / "index.html"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_is_whole(browser, page, tmp_path, width, dark):
    browser.requests.clear()
    browser.console_errors.clear()
    browser.open(page, width, dark=dark)
    assert browser.console_errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    drawn = browser.evaluate(
        "[...document.querySelectorAll('.plot')].map((plot) => plot.querySelectorAll('.trace').length)"
    )
    # return twice, three diagnostics, throughput, two of architectures, two evaluations, two of memory, utilisation and
    # power over time, roofline
    assert len(drawn) == 15
    assert all(drawn), f"a plot is empty: {drawn}"
    cut = "[...document.querySelectorAll('.table')].filter((table) => table.scrollWidth > table.clientWidth).length"
    assert width < 1440 or browser.evaluate(cut) == 0, "a table is cut off"
    too_wide = "(plot) => plot.querySelector('svg').clientWidth > plot.clientWidth"
    assert browser.evaluate(f"[...document.querySelectorAll('.plot')].filter({too_wide}).length") == 0
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 22, 26)" if dark else "rgb(252, 252, 251)")
    picture = tmp_path / f"report_{width}_{'dark' if dark else 'light'}.png"
    browser.screenshot(picture)
    assert picture.stat().st_size > 50_000


def test_the_button_changes_the_colours(browser, page):
    browser.open(page, 1440)
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate("document.documentElement.dataset.theme") == "dark"
    assert browser.evaluate("document.querySelector('.plot .gridlayer path').style.stroke") == "rgb(51, 55, 63)"


def test_text_is_readable_against_its_background(browser, page):
    """Contrast of text colours, WCAG 2: at least 4.5 in both themes."""
    contrast = """(() => {
      const channel = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      const light = (css) => {
        const canvas = document.createElement('canvas').getContext('2d');
        canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => channel(value / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const style = getComputedStyle(document.documentElement);
      const page = light(style.getPropertyValue('--page'));
      return Object.fromEntries(['--ink', '--muted', '--link', '--good', '--warning', '--serious'].map((name) => {
        const text = light(style.getPropertyValue(name));
        return [name, (Math.max(page, text) + 0.05) / (Math.min(page, text) + 0.05)];
      }));
    })()"""
    for dark in (False, True):
        browser.open(page, 1440, dark=dark)
        ratios = browser.evaluate(contrast)
        assert min(ratios.values()) >= 4.5, ratios


def test_a_curve_of_one_point_is_seen(browser, tmp_path):
    write_report([write_run(tmp_path, lines=3)], tmp_path / "report")  # the first two lines have no return yet
    browser.open(tmp_path / "report" / "index.html", 1440)
    points = "document.querySelector('.plot[data-y=mean_return]').querySelectorAll('.points path').length"
    assert browser.evaluate(points) >= 1
