"""An edge for people's own Playwright tests: their actions heal, their assertions are never touched.

What the plugin does, it does through Playwright's public classes and pytest's hooks. Without `--heal` only
`plugin.py` is loaded, and that imports nothing but pytest.
"""


class HealWarning(UserWarning):
    """An action was performed on another element than the one that the test's locator names, or would have been."""
