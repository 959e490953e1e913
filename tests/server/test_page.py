"""The page of the server, in Chromium (Debian's packages chromium and chromium-driver, and selenium)."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.waiting import LIMIT, until

from pinnace.server.settings import ModelSettings

DATA = Path(str(resources.files("pinnace") / "data"))


@pytest.fixture
def browser(tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking",
        "disable-component-update", "disable-sync", "window-size=1200,1400",
        f"user-data-dir={tmp_path / 'chromium'}",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    with webdriver.Chrome(options, service) as driver:
        yield driver


def test_the_page_takes_scripts_and_figures_from_its_server_only(serving, simple, tmp_path):
    (tmp_path / "m").mkdir()
    shutil.copy(simple, tmp_path / "m" / "model.onnx")
    (tmp_path / "m" / "labels.txt").write_text("cat\ndog\n")
    server = serving(tmp_path)

    def got(path: str):
        return urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=LIMIT)

    with got("/") as page:
        assert page.headers.get_content_type() == "text/html"
        policy = page.headers["content-security-policy"].split("; ")
        assert {"default-src 'self'", "base-uri 'none'"} <= {*policy}
        assert page.read().lower().startswith(b"<!doctype html>")
    assert json.load(got("/labels/m")) == ["cat", "dog"]
    (model,) = json.load(got("/status"))["models"]
    assert (model["name"], model["version"], model["state"], model["served"]) == ("m", "1", "READY", 0)


def test_the_form_classifies_a_cat(serving, browser, tmp_path):
    folder = tmp_path / "models" / "efficientnet"
    folder.mkdir(parents=True)
    shutil.copy(DATA / "efficientnet_lite0.mindir", folder / "model.mindir")
    shutil.copy(DATA / "imagenet_labels.json", folder / "labels.json")
    server = serving(tmp_path / "models", settings=ModelSettings(workers=1, threads=1))
    browser.get(f"http://127.0.0.1:{server.http_port}/")

    def element(name: str):
        return browser.find_element("id", name)

    until(lambda: element("curl").text)
    for name, text in (("scale", "1"), ("mean", "127"), ("std", "128"), ("crop", "0.875")):
        element(name).clear()
        element(name).send_keys(text)
    element("file").send_keys(str(DATA / "chelsea.png"))
    browser.find_element("css selector", "button").click()
    until(lambda: element("result").text or element("failure").text)
    assert element("failure").text == ""
    rows = element("result").text.splitlines()
    assert "cat" in rows[1]  # the best of five; tabby, tiger cat and Egyptian cat are all right
    until(lambda: " 1 " in f" {element('models').text} ")
    assert "efficientnet" in element("models").text
    assert "tritonclient" in element("python").text
    browser.save_screenshot(str(tmp_path / "page.png"))
    assert [line for line in browser.get_log("browser") if "favicon" not in line["message"]] == []
