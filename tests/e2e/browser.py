"""A headless Chromium for tests of the page and for bench/page: Debian's chromium and chromium-driver, driven
by selenium. It asks nothing of the network: a proxy that is not there stands before every address but the
server's.
"""
from selenium import webdriver


def open_browser(dark=False, width=1200):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--no-first-run", f"--window-size={width},800",
                     "--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=127.0.0.1"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    if dark:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    return browser


def first_paints(browser):
    """Milliseconds from the beginning of the page's navigation, of whatever was painted so far."""
    return browser.execute_script("return performance.getEntriesByType('paint').map((one) => one.startTime)")


def loaded_bytes(browser):
    """Of the bodies of the page and of everything that it has loaded, as they came over the network."""
    return browser.execute_script("""
        const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
        return all.reduce((sum, one) => sum + one.encodedBodySize, 0);""")
