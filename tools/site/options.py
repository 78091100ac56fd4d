"""Shows the parameters behind `**options: Unpack[Whole]` in the signatures on the API's page, like help().

griffe's own extension unpack_typeddict omits all defaults, and the parameters of a TypedDict's bases.
"""

import ast

import griffe

from millrace import _parameters


class Options(griffe.Extension):
    """Changes the signature of a function with a TypedDict of options."""

    def on_function(self, *, func, **_):
        for given in list(func.parameters):
            if str(given.annotation).startswith("Unpack["):
                del func.parameters[given.name]
                for parameter in _parameters_of(given.annotation.slice.name, func.package["_parameters"]):
                    func.parameters.add(parameter)


def _parameters_of(options, module):
    for name, kind in getattr(_parameters, options).__annotations__.items():
        annotation = griffe.safe_get_annotation(ast.parse(kind.__forward_arg__, mode="eval").body, parent=module)
        default = repr(_parameters.DEFAULTS.get(name))
        yield griffe.Parameter(name, annotation=annotation, kind=griffe.ParameterKind.keyword_only, default=default)
