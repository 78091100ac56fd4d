"""Plants of the documentation as pages, and of the package that is published."""

PLANTS = [
    (
        "a page leads to a file that is not there",
        "client/python/tests/test_site.py test_a_link_that_leads_nowhere_is_an_error",
        [("tools/site/pages.py", "assert os.path.exists(", "assert True or os.path.exists(")],
    ),
    (
        "parameters of the API's page run into one another",
        "client/python/tests/test_site.py test_parameters_are_lists",
        [("tools/site/docstrings.py", "    if not _row(lines, 0):", "    if True:")],
    ),
    (
        "help() names a page of a folder that an installed package has not",
        "client/python/tests/test_package.py test_help_names_what_a_user_has",
        [("client/python/millrace/importance.py", "https://github.com/millrace-data/millrace/blob/main/docs/importance.md", "docs/importance.md")],
    ),
    (
        "the API's page leads away from the site",
        "client/python/tests/test_site.py test_the_reference_leads_to_pages_of_the_site",
        [("tools/site/docstrings.py", "text = PAGE.sub(", "PAGE.sub(")],
    ),
    (
        "the API's page shows no defaults of an epoch's parameters",
        "client/python/tests/test_site.py test_the_reference_shows_every_parameter",
        [("tools/site/options.py", "repr(_parameters.DEFAULTS.get(name))", '"..."')],
    ),
    (
        "the API's page leaves out the parameters that a set of options has from its bases",
        "client/python/tests/test_site.py test_the_reference_shows_every_parameter",
        [("mkdocs.yml", "tools/site/options.py]", "unpack_typeddict]")],
    ),
    (
        "a wheel is of a form that publishing tools refuse",
        "client/python/tests/test_package.py test_wheel_and_sdist",
        [("client/python/pyproject.toml", "[tool.hatch.build.targets.wheel]\ncore-metadata-version = \"2.4\"", "[tool.hatch.build.targets.wheel]")],
    ),
]
