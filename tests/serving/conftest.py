"""Networks that the tests of exports train."""

from tests.export.conftest import exports, groups, networks  # noqa: F401
